"""The result of every reader: a split of a data set, one example after the other."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8


@dataclass(frozen=True)
class Example:
    """One picture and the index of its class, −1 where it has none."""

    image: UInt8[np.ndarray, "3 h w"]
    label: int


@dataclass(frozen=True)
class Unreadable:
    """A file that should hold a picture and does not, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A split of a data set. All pictures have the same height and width.

    `examples` is an iterator that reads the files as it goes, so that their errors are raised there. `expected` is the
    number of examples there should be, for progress bars.
    """

    description: str
    classes: tuple[str, ...]
    height: int
    width: int
    expected: int
    examples: Iterator[Example | Unreadable]
