"""How large the pictures in files are, by the headers of some of them."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median_high
from typing import BinaryIO

import torch
from PIL import Image

from care.data.readers.decoding import formats
from care.data.readers.pictures import lenient_pillow

LOOKED_AT = 64  # files, of which only the beginning is read


def evenly_spread(count: int) -> list[int]:
    """The positions of LOOKED_AT files, evenly spread over `count`."""
    return torch.linspace(0, count - 1, min(LOOKED_AT, count)).round().long().tolist()


def median_side(files: Iterable[Path | BinaryIO]) -> int | None:
    """The median of the pictures' shorter sides in pixels; None if no header can be read, which later work reports."""
    with lenient_pillow():
        sides = [side for file in files if (side := _shorter_side(file)) is not None]
    return median_high(sides) if sides else None


def stored_side(files: Sequence[Path], largest: int) -> int:
    """The side of squares that these pictures become: `largest`, or the median of smaller pictures' own."""
    return min(largest, median_side(files[i] for i in evenly_spread(len(files))) or largest)


def _shorter_side(file: Path | BinaryIO) -> int | None:
    with suppress(Exception), Image.open(file, formats=formats()) as picture:
        return min(picture.size)
    return None
