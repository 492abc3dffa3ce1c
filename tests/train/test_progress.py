"""What a person sees while it trains."""

import io

import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from care.train import Config, Several, TensorBoard, Terminal

RECORD = {
    "epoch": 2,
    "step": 20,
    "loss": 1.5,
    "equivariance": 0.25,
    "knn": None,
    "learning_rate": 1e-3,
}


def test_tensorboard_reads_back_what_was_written(tmp_path):
    Several(TensorBoard(tmp_path), Terminal(Console(file=io.StringIO()))).epoch(RECORD)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"step", "loss", "equivariance", "learning_rate"}
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(2, 1.5)]


def test_plain_lines_without_a_terminal():
    text = io.StringIO()
    watcher = Terminal(Console(file=text, force_terminal=False))
    watcher.step(0, 1, 10, Config.of(data="shapes"), {"loss": torch.tensor(3.0)})
    watcher.epoch(RECORD)
    watcher.say("resumed after step 10")
    assert text.getvalue() == "epoch 2  loss 1.500  equivariance 0.250\nresumed after step 10\n"


def test_a_bar_on_a_terminal():
    text = io.StringIO()
    watcher = Terminal(Console(file=text, force_terminal=True, width=120))
    config = Config.of(data="shapes", epochs=1, batch_size=64)
    for step in range(1, 11):
        watcher.shown = 0.0  # show every step
        watcher.step(0, step, 10, config, {"loss": torch.tensor(2.0 * step)})
    shown = text.getvalue()
    assert "epoch 1/1" in shown
    assert "loss 2.000" in shown
    assert "samples/s" in shown
    assert "left" in shown
