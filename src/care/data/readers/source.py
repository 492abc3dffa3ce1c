"""The result of every reader: a split of a data set, one example after the other."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

SHARE_SKIPPED, FEWEST_SKIPPED = 0.01, 10  # default limits on unreadable files that are left out


@dataclass(frozen=True)
class Example:
    """One picture and the index of its class, −1 where it has none."""

    image: UInt8[np.ndarray, "3 h w"]
    label: int


@dataclass(frozen=True)
class Unreadable:
    """A file that cannot be read as a picture, and the reason."""

    file: str
    reason: str


@runtime_checkable
class Indexed(Protocol):
    """Examples that several processes can read, in any order. Equal examples have equal fingerprints."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Example | Unreadable: ...

    def fingerprint(self) -> str:
        """A digest of everything that the examples depend on."""
        ...


@dataclass(frozen=True)
class DataSource:
    """A split of a data set, as a reader yields it. All pictures have the same height and width.

    `examples` reads the files, and raises their errors, during iteration. If it is `Indexed`, all cores prepare it, and
    an interrupted preparation can be continued. `expected` is the expected number of examples, for progress bars, and
    `notes` are sentences about the files for the user.
    """

    description: str
    classes: tuple[str, ...]
    height: int
    width: int
    expected: int
    examples: Iterable[Example | Unreadable] | Indexed
    notes: tuple[str, ...] = ()


def default_skip(files: int) -> int:
    """The default number of unreadable files that may be left out: 1 % of `files`, and at least 10."""
    return max(FEWEST_SKIPPED, math.ceil(SHARE_SKIPPED * files))
