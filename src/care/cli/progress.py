"""Progress of the stages of a command: a bar per stage on a terminal, a line per finished stage elsewhere."""

import time
from collections.abc import Iterator
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

from care.evaluate.effects.families import Watch


@contextmanager
def progress_bars() -> Iterator[Watch]:
    """A callback for (stage, done, total), shown on the error stream, so that standard output holds results only."""
    console = Console(stderr=True)
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), *times)
    tasks: dict[str, TaskID] = {}
    started = time.perf_counter()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:

        def watch(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)
            if done == total and not console.is_terminal:
                print(f"{stage}: done after {time.perf_counter() - started:.1f} s", file=console.file, flush=True)

        yield watch
