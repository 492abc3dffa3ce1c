"""How a training command ends when it does not finish: one line on the error stream, and an exit code of its own."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from care.cli.errors import print_error, sentence_of

NOT_WRITTEN = 1
NOT_FINITE = 3
STOPPED = 75  # by a signal, after a checkpoint was saved


@contextmanager
def ending_in_one_line(resuming: str, not_finite: str) -> Iterator[None]:
    """Around a training: print one line and exit if it is stopped, its loss is not finite, or a file cannot be written.

    `resuming` tells the user how to continue, `not_finite` what to do about a loss that is not finite.
    """
    from care.train import Interrupted

    try:
        yield
    except Interrupted:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # torchrun forwards signals to processes that already have them
        typer.echo(f"stopped; {resuming}", err=True)
        raise typer.Exit(STOPPED) from None
    except FloatingPointError as error:
        print_error(f"{error}; {not_finite}")
        raise typer.Exit(NOT_FINITE) from error
    except OSError as error:
        print_error(f"{sentence_of(error)}; once that is fixed, {resuming}")
        raise typer.Exit(NOT_WRITTEN) from error
