"""What a person sees while it trains."""

import io

import torch
from rich.console import Console

from care.train import Config, Several, Terminal
from care.train import progress as progressing

RECORD = {
    "epoch": 2,
    "step": 20,
    "loss": 1.5,
    "equivariance": 0.25,
    "rankme": 12.3456,
    "effective_rank": 7.0,
    "gaussian_uniformity": -2.0,
    "knn": None,
    "learning_rate": 1e-3,
}
CONFIG = Config.of(data="shapes", epochs=2, batch_size=64)


def test_plain_lines_without_a_terminal():
    text = io.StringIO()
    watcher = Several(Terminal(Console(file=text, force_terminal=False)))
    watcher.step(0, 1, 10, CONFIG, {"loss": torch.tensor(3.0)})
    watcher.epoch(RECORD)
    watcher.say("resumed after step 10")
    assert text.getvalue() == "epoch 2  loss 1.500  equivariance 0.250  rankme 12.346\nresumed after step 10\n"


def test_without_a_terminal_there_is_a_line_a_minute(monkeypatch):
    text, now = io.StringIO(), [1000.0]
    monkeypatch.setattr(progressing.time, "perf_counter", lambda: now[0])
    watcher = Terminal(Console(file=text, force_terminal=False))
    for step in range(1, 101):
        watcher.step(0, step, 100, CONFIG, {"loss": torch.tensor(2.0 * step), "equivariance": torch.tensor(0.5 * step)})
        now[0] += 3.0
    lines = text.getvalue().splitlines()
    assert len(lines) == 4  # 297 seconds, and none for the end of the epoch, which has a line of its own
    assert lines[0] == "epoch 1/2  step 21/100  8:57 left  21 samples/s  loss 2.000  equivariance 0.500"


def test_a_bar_on_a_terminal():
    text = io.StringIO()
    config = CONFIG.replace(epochs=1)
    with Terminal(Console(file=text, force_terminal=True, width=120)) as watcher:
        for step in range(1, 11):
            watcher.shown = 0.0  # show every step
            watcher.step(0, step, 10, config, {"loss": torch.tensor(2.0 * step)})
        assert watcher.bar.live.is_started
    shown = text.getvalue()
    assert "epoch 1/1" in shown
    assert "loss 2.000" in shown
    assert "samples/s" in shown
    assert "left" in shown
    assert not watcher.bar.live.is_started
