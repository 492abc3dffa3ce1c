"""The events of a training, and their observers: a bar or lines on a terminal, a callback."""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text
from torch import Tensor

from care.progress import ProgressCallback
from care.tables import duration, visible, wrapped
from care.train.config import Config

# How often the bar is redrawn and, without a terminal, how often a line is printed within an epoch.
SECONDS_BETWEEN_UPDATES, SECONDS_BETWEEN_LINES = 1.0, 60.0

# Values that the line of an epoch omits: the position, and measures that have a better known one beside them.
UNSHOWN = (
    "epoch", "step", "learning_rate", "backbone_rankme", "effective_rank", "alignment", "gaussian_uniformity",
)  # fmt: skip
# Measures in order of importance, printed below the terms of the loss if one line does not hold everything.
MEASURED = (
    "knn", "heldout_ratio", "displacement", "rankme", "gamma", "positive_cosine", "negative_cosine", "gram_error",
    "strength",
)  # fmt: skip
BAR = 12  # columns


class Progress:
    """The events of a training, which runs inside its context. This class ignores them; subclasses show or log them."""

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """A step of the epoch is done."""

    def means(self, record: Mapping[str, Any]) -> None:
        """Several steps are done, with these means over them; sent by `StepMeans`."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is done, with this record in the log."""

    def say(self, *sentences: str) -> None:
        """There is a message for the user."""

    def finish(self, complete: bool) -> None:
        """The training has ended: it is complete, or it was stopped or has failed."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish(complete=kind is None)


class CallbackProgress(Progress):
    """Calls `progress(stage, done, total)` with the steps of the whole run."""

    def __init__(self, stage: str, progress: ProgressCallback) -> None:
        self.stage, self.progress = stage, progress

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Report the steps of all epochs."""
        self.progress(self.stage, epoch * steps + step, config.epochs * steps)


class Terminal(Progress):
    """Prints a line per epoch, and one with its measures, cut to the terminal's width: log.jsonl has the rest.

    On a terminal, a bar shows the terms of the loss, samples per second and the time left. Without a terminal, the same
    is printed as a line, once a minute.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.bar: Bar | None = None
        self.started, self.shown, self.first_step = 0.0, 0.0, 0

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Update the bar, at most once a second: reading the loss makes the host wait for the GPU."""
        now, done = time.perf_counter(), epoch * steps + step
        if not self.started:
            self.started, self.first_step = now, done
            self.shown = self.shown if self.console.is_terminal else now
        if not self._is_due(now, step == steps):
            return
        self.shown = now
        pace = (done - self.first_step) / max(now - self.started, 1e-9)
        left = f"  {duration((config.epochs * steps - done) / pace)} left" if pace else ""
        rate = f"  {pace * config.batch_size:,.0f} samples/s" if pace else ""
        terms = [f"{name} {value.item() / step:.3f}" for name, value in sums.items()]
        if self.console.is_terminal:
            room = self.console.width - BAR - 1
            text = _as_fits([f"epoch {epoch + 1}/{config.epochs}{left}{rate}", *terms], room)
            self._draw(done, config.epochs * steps, text)
        else:
            text = f"epoch {epoch + 1}/{config.epochs}  step {step}/{steps}{left}{rate}"
            self._print(_as_fits([text, *terms], self.console.width))

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Print the numbers of the record in one line or, if that is too long, the measures in a second line."""
        shown = {name: value for name, value in record.items() if name not in UNSHOWN and value is not None}
        numbers = {name: f"{name} {value:.3f}" for name, value in shown.items()}
        first = f"epoch {record['epoch']}"
        if len("  ".join([first, *numbers.values()])) <= self.console.width:
            self._print("  ".join([first, *numbers.values()]))
            return
        measured = [numbers[name] for name in MEASURED if name in numbers]
        self._print(_as_fits([first, *(numbers[name] for name in numbers if name not in MEASURED)], self.console.width))
        if measured:
            self._print("  " + _as_fits(measured, self.console.width - 2))

    def say(self, *sentences: str) -> None:
        """Print the sentences."""
        for sentence in sentences:
            self.console.print(Text(wrapped(visible(sentence), self.console.width)), soft_wrap=True)

    def lines(self, text: str) -> None:
        """Print lines that are wrapped already."""
        self.console.print(Text(text), soft_wrap=True)

    def finish(self, complete: bool) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()

    def _is_due(self, now: float, is_last: bool) -> bool:
        """The bar also shows the end of an epoch, which has a line of its own."""
        if self.console.is_terminal:
            return is_last or now - self.shown >= SECONDS_BETWEEN_UPDATES
        return not is_last and now - self.shown >= SECONDS_BETWEEN_LINES

    def _draw(self, done: int, total: int, text: str) -> None:
        if self.bar is None:
            self.bar = Bar(BarColumn(BAR), TextColumn("{task.description}"), console=self.console, transient=True)
            self.task = self.bar.add_task("", total=total)
            self.bar.start()
        self.bar.update(self.task, completed=done, description=text)

    def _print(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)


def _as_fits(words: Iterable[str], width: int) -> str:
    """The first words, as many as fit into a line of this width."""
    line, *rest = words
    for word in rest:
        if len(line) + 2 + len(word) > width:
            break
        line += "  " + word
    return line


class Several(Progress):
    """Passes every event on to several others."""

    def __init__(self, *others: Progress) -> None:
        self.others = others

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Pass it on."""
        for other in self.others:
            other.step(epoch, step, steps, config, sums)

    def means(self, record: Mapping[str, Any]) -> None:
        """Pass it on."""
        for other in self.others:
            other.means(record)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Pass it on."""
        for other in self.others:
            other.epoch(record)

    def say(self, *sentences: str) -> None:
        """Pass it on."""
        for other in self.others:
            other.say(*sentences)

    def finish(self, complete: bool) -> None:
        """Pass it on."""
        for other in self.others:
            other.finish(complete)
