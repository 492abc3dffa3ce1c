"""How a training can end other than well: one line, and an exit code of its own."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from care.cli.mistakes import tell
from care.train import Interrupted

NOT_WRITTEN = 1
NOT_FINITE = 3
STOPPED = 75  # asked to stop, and everything is saved


@contextmanager
def told_in_a_line(again: str, not_finite: str) -> Iterator[None]:
    """Around a training: `again` says what goes on after a stop, `not_finite` what to do about a loss that is none."""
    try:
        yield
    except Interrupted:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # torchrun passes on what this process got itself: it is heard
        typer.echo(f"stopped; {again}", err=True)
        raise typer.Exit(STOPPED) from None
    except FloatingPointError as error:
        tell(f"{error}; {not_finite}")
        raise typer.Exit(NOT_FINITE) from error
    except OSError as error:
        tell(f"{error.strerror or error}; once that is mended, {again}")
        raise typer.Exit(NOT_WRITTEN) from error
