"""Progress of long work: a bar per stage on a terminal, a line per finished stage elsewhere."""

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
def watching() -> Iterator[Watch]:
    """A function that is told (stage, done, total) and shows it on the error stream: what is printed stays clean."""
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
