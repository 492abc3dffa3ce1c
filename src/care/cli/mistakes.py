"""A user's mistake is told in one line, with exit code 2. Everything else is ours and keeps its traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape


@contextmanager
def users_input() -> Iterator[None]:
    """Around the code that reads what the user gave, and only that code: its errors are the user's to mend."""
    try:
        yield
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"[red]care:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
