"""Progress, speed and remaining time of a long task: a bar on a terminal, a line a minute elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from care.cli.errors import as_options
from care.tables import duration, visible, wrapped

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def showing_rate(
    console: Console, what: str, unit: str, total: int | None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """A callback for how many of `total` are done. The first call says how many were done before: they took no time."""
    first, started, last_line = None, clock(), clock()
    columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(visible(what), total=total, rate="")

        def show(done: int) -> None:
            nonlocal first, started, last_line
            now = clock()
            if first is None:
                first, started, last_line = done, now, now
            rate = in_words(done, total, unit, done - first, now - started)
            bar.update(task, completed=done, rate=rate)
            if not console.is_terminal and now - last_line >= SECONDS_BETWEEN_LINES:
                last_line = now
                say(console, f"{what}: {rate}")

        yield show


def in_words(done: int, total: int | None, unit: str, recent: int, seconds: float) -> str:
    """`12,000 of 130,000 pictures, 310/s, 6:21 left`, where `recent` of them took so many `seconds`."""
    words = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
    if recent <= 0 or seconds <= 0:
        return words
    rate = recent / seconds
    left = "" if total is None else f", {duration((total - done) / rate)} left"
    return f"{words}, {rate:,.0f}/s{left}" if rate >= 10 else f"{words}, {rate:.1f}/s{left}"


def say(console: Console, line: str) -> None:
    """Print a line without markup, wrapped at words: file names may hold brackets, and paths can be copied."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    console.print(Text(wrapped(visible(as_options(line)), console.width, indent)), soft_wrap=True)
