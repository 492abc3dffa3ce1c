"""Progress of the stages of a command: a bar per stage on a terminal, a line now and then in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from care.progress import ProgressCallback
from care.tables import duration

SECONDS_BETWEEN_LINES = 60
UNITS = {"a second": 1, "a minute": 60}


@contextmanager
def progress_bars() -> Iterator[ProgressCallback]:
    """A callback for (stage, done, total), shown on the error stream, so that standard output holds results only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(lambda line: print(line, file=console.file, flush=True))
        return
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), *times)
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as bars:

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield progress


class Lines:
    """Progress as lines: one when a stage begins, at most one a minute while it lasts, and one when it is done."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.perf_counter) -> None:
        self.write, self.clock, self.started = write, clock, clock()
        self.begun: dict[str, tuple[float, int]] = {}
        self.last_line = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Write a line at the beginning, at the end, and a minute after the last line."""
        now = self.clock()
        begins = stage not in self.begun
        began, first = self.begun.setdefault(stage, (now, done))
        if done == total:
            self.write(f"{stage}: done after {now - self.started:.1f} s")
        elif begins or now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.write(f"{stage}: {done:,} of {total:,}{_pace(done - first, now - began, total - done)}")
        else:
            return
        self.last_line = now


def _pace(done: int, seconds: float, left: int) -> str:
    """The speed and the remaining time; empty before the first is done."""
    if not done or seconds <= 0:
        return ""
    pace = done / seconds
    unit, length = next((unit for unit in UNITS.items() if pace * unit[1] >= 1), ("an hour", 3600))
    return f", {pace * length:,.1f} {unit}, {duration(left / pace)} left"
