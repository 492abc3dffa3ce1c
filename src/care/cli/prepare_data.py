"""The work of `care data prepare`: write the store of each split, and report on it."""

import math
from pathlib import Path
from typing import Any

from rich.console import Console

from care.cli.rate import say, showing_rate
from care.data.readers import DataSource
from care.data.readers.source import default_skip
from care.data.store import Header
from care.data.store_writer import TooManyUnreadable, is_prepared, write_store

MOST_LISTED = 20  # unreadable files that are printed; a file lists all of them


def prepared(
    console: Console, folders: dict[str, Path], sources: dict[str, DataSource], overwrite: bool
) -> tuple[str, ...]:
    """The splits that are prepared already from the same files; ValueError if a store of other files is in the way."""
    done = tuple(part for part, folder in folders.items() if is_prepared(folder, sources[part], overwrite))
    there = [folder for part, folder in folders.items() if part not in done and folder.exists()]
    if there and not overwrite:
        raise ValueError(f"{there[0]} exists: --overwrite replaces it, --split prepares other splits alone")
    for part in done:
        say(console, f"{folders[part]}: prepared already, from the same files")
    return done


def prepare_split(
    console: Console, name: str, split: str, folder: Path, source: DataSource, skip: str | None, **how: Any
) -> Header:
    """Write the store of a split, with the settings `how` of `write_store`, and say what it holds."""
    what, most = f"{name} {split}", allowed(skip, source.expected)
    say(console, f"{what}: {source.expected:,} pictures to read")
    for note in source.notes:
        say(console, f"{what}: {note}")
    tell = lambda line: say(console, f"{what}: {line}")  # noqa: E731
    try:
        with showing_rate(console, what, "pictures", source.expected) as tick:
            header = write_store(folder, name, split, source, most, tick=tick, say=tell, **how)
    except TooManyUnreadable as error:
        list_skipped(console, error.skipped, error.file)
        raise
    size, classes = f"{header.height} × {header.width}", f"{len(header.classes) or 'no'} classes"
    say(console, f"{folder}: {header.count:,} images of {size} pixels, {classes}")
    return header


def allowed(skip: str | None, files: int) -> int:
    """How many of the files --skip, a number or a percentage, allows to leave out."""
    text = (skip or "").strip()
    number = text.removesuffix("%").strip()
    if skip is None:
        return default_skip(files)
    if text.isdecimal():
        return int(text)
    try:
        if not text.endswith("%") or not 0 <= float(number) <= 100:
            raise ValueError
        return math.ceil(float(number) / 100 * files)
    except ValueError:
        raise ValueError(f"--skip takes a number of files, or a percentage such as 5%, got {skip!r}") from None


def list_skipped(console: Console, skipped: list[str], file: Path | None) -> None:
    """Print the first files that cannot be read, one per line."""
    if skipped:
        say(console, f"cannot be read, as listed in {file}:" if file else "cannot be read:")
    for line in skipped[:MOST_LISTED]:
        say(console, f"  {line}")
    if len(skipped) > MOST_LISTED:
        say(console, f"  … {len(skipped) - MOST_LISTED:,} more")
