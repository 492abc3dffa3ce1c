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


def test_a_line_too_long_leaves_the_measures_to_a_second_one_and_the_least_of_them_to_the_log():
    text = io.StringIO()
    terms = {"loss": 4.0, "info_nce": 3.0, "equivariance": 0.25, "slice": 1.0, "orbit": 1.0, "gradient_norm": 0.5}
    measured = {"gram_error": 0.1, "gamma": 1.0, "heldout_ratio": 0.9, "displacement": 0.3, "rankme": 7.0, "knn": 0.8}
    more = {"positive_cosine": 0.9, "negative_cosine": 0.1}
    Terminal(Console(file=text, force_terminal=False, width=80)).epoch({"epoch": 12, **terms, **measured, **more})
    assert text.getvalue().splitlines() == [
        "epoch 12  loss 4.000  info_nce 3.000  equivariance 0.250  slice 1.000",
        "  knn 0.800  heldout_ratio 0.900  displacement 0.300  rankme 7.000  gamma 1.000",
    ]
