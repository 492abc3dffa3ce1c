"""Progress of a training: a bar and lines on a terminal, TensorBoard, or a callback."""

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text
from torch import Tensor

from care.evaluate.effects.families import Watch
from care.tables import visible
from care.train.config import Config

SECONDS_BETWEEN_UPDATES = 1.0


class Progress:
    """The events of a training. This class ignores them; subclasses show them."""

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """A step of the epoch is done."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is done, with this record in the log."""

    def say(self, *sentences: str) -> None:
        """There is a message for the user."""


class CallbackProgress(Progress):
    """Calls `watch(stage, done, total)` with the steps of the whole run."""

    def __init__(self, stage: str, watch: Watch) -> None:
        self.stage, self.watch = stage, watch

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Report the steps of all epochs."""
        self.watch(self.stage, epoch * steps + step, config.epochs * steps)


class Terminal(Progress):
    """A line per epoch and, on a terminal, a bar with the terms of the loss, samples per second and the time left."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.bar: Bar | None = None
        self.started, self.shown, self.first_step = 0.0, 0.0, 0

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Update the bar, at most once a second: reading the loss makes the host wait for the GPU."""
        now = time.perf_counter()
        if not self.started:
            self.started, self.first_step = now, epoch * steps + step
        if not self.console.is_terminal or (now - self.shown < SECONDS_BETWEEN_UPDATES and step < steps):
            return
        self.shown = now
        done, total = epoch * steps + step, config.epochs * steps
        if self.bar is None:
            self.bar = Bar(BarColumn(12), TextColumn("{task.description}"), console=self.console, transient=True)
            self.task = self.bar.add_task("", total=total)
            self.bar.start()
        pace = (done - self.first_step) / max(now - self.started, 1e-9)
        terms = "  ".join(f"{name} {value.item() / step:.3f}" for name, value in sums.items())
        left = f"  {_duration((total - done) / pace)} left" if pace else ""
        text = f"epoch {epoch + 1}/{config.epochs}{left}  {pace * config.batch_size:,.0f} samples/s  {terms}"
        self.bar.update(self.task, completed=done, description=text)
        if done == total:
            self.bar.stop()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Print the numbers of the record in one line."""
        shown = {k: v for k, v in record.items() if k not in ("step", "learning_rate", "epoch") and v is not None}
        numbers = "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
        self.console.print(f"epoch {record['epoch']}  {numbers}", highlight=False, soft_wrap=True)

    def say(self, *sentences: str) -> None:
        """Print the sentences."""
        for sentence in sentences:
            self.console.print(Text(visible(sentence)), soft_wrap=True)


class TensorBoard(Progress):
    """Writes the record of every epoch for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise ValueError("--tensorboard needs the package tensorboard: install care-ssl[tensorboard]")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Write every number of the record."""
        for name, value in record.items():
            if name != "epoch" and value is not None:
                self.writer.add_scalar(name, value, record["epoch"])
        self.writer.flush()


class Several(Progress):
    """Passes every event on to several others."""

    def __init__(self, *others: Progress) -> None:
        self.others = others

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Pass it on."""
        for other in self.others:
            other.step(epoch, step, steps, config, sums)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Pass it on."""
        for other in self.others:
            other.epoch(record)

    def say(self, *sentences: str) -> None:
        """Pass it on."""
        for other in self.others:
            other.say(*sentences)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
