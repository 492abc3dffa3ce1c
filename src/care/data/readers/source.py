"""The result of every reader: a split of a data set, one example after the other."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

SHARE_SKIPPED, FEWEST_SKIPPED = 0.01, 10  # of the files may be left out, unless more or fewer are asked for


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


@runtime_checkable
class Indexed(Protocol):
    """Examples that several processes can read, in any order. As long as they are the same, so is their fingerprint."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Example | Unreadable: ...

    def fingerprint(self) -> str:
        """A digest of everything that the examples depend on."""
        ...


@dataclass(frozen=True)
class Source:
    """A split of a data set. All pictures have the same height and width.

    `examples` reads the files as it is iterated over, so that their errors are raised there. If it is `Indexed`, all
    cores prepare it, and go on where they stopped. `expected` is the number of examples there should be, for progress
    bars, and `notes` are sentences about the files that the user should read.
    """

    description: str
    classes: tuple[str, ...]
    height: int
    width: int
    expected: int
    examples: Iterable[Example | Unreadable] | Indexed
    notes: tuple[str, ...] = ()


def default_skip(files: int) -> int:
    """How many of so many files may be left out: 1 %, and always 10."""
    return max(FEWEST_SKIPPED, math.ceil(SHARE_SKIPPED * files))
