"""A user's mistake is printed in one line, with exit code 2. Every other error is a bug and keeps its traceback."""

import errno
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from care.tables import visible

MISTAKE = 2
PACKAGE = Path(__file__).parents[1]

# What the errors of the system mean to a user who gave a path, and what to do about them.
IN_WORDS = {
    errno.ENOENT: "it does not exist, or its parent folder does not: check the path",
    errno.EEXIST: "a file of that name is in the way: choose another name, or remove it",
    errno.ENOTDIR: "a file is where a folder should be: choose another path",
    errno.EISDIR: "it is a folder, but a file is needed: give a file",
    errno.EACCES: "permission denied: choose another path, or change its permissions",
    errno.EPERM: "permission denied: choose another path, or change its permissions",
    errno.EROFS: "the file system is read-only: choose another path",
    errno.ENOSPC: "the disk is full: make room, or choose another disk",
    errno.ELOOP: "it is a link that leads back to itself: remove it",
    errno.ENAMETOOLONG: "its name is too long: choose a shorter one",
}


@contextmanager
def users_input() -> Iterator[None]:
    """Around the code that reads what the user gave, and only that code: a ValueError or OSError there is a mistake."""
    try:
        yield
    except (ValueError, OSError) as error:
        print_error(sentence_of(error))
        raise typer.Exit(MISTAKE) from error


def print_error(sentence: str) -> None:
    """Print `care: sentence` in one line on the error stream, without line breaks or control characters."""
    line = Text.assemble(("care:", "red"), " ", visible(as_options(" ".join(sentence.split("\n")))))
    Console(file=sys.stderr).print(line, soft_wrap=True)


def as_options(text: str) -> str:
    """A text of the library with the options of its settings: --batch-size in place of `batch_size`, as wide."""
    return re.sub("`([a-z_]+)`", lambda setting: f"--{setting[1].replace('_', '-')}", text)


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print care's own warnings as a sentence, and those of other packages as Python does, with their source line."""
    if Path(filename).is_relative_to(PACKAGE):
        Console(file=sys.stderr).print(Text(visible(as_options(f"care: {message}"))), soft_wrap=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def sentence_of(error: ValueError | OSError) -> str:
    """The message of an error; an error of the operating system, `[Errno 2] …`, becomes the path and a hint."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.filename is None or "could not be written" in error.strerror:
        return error.strerror
    return f"{error.filename}: {IN_WORDS.get(error.errno or 0, error.strerror)}"
