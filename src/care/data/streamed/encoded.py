"""What a source of pictures promises that are decoded as training asks for them."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64
from torch import Tensor


@runtime_checkable
class EncodedPictures(Protocol):
    """Pictures as they are on the disk, each of which any process can read by itself.

    They are numbered from 0, always alike as long as the files are the same. So the order of an epoch, the place in it
    where a run is resumed, and the shares of processes are indices, as they are for a store.
    """

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        """The class of each, −1 where it has none."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        ...

    @property
    def shards(self) -> Int64[Tensor, " n"] | None:
        """The shard of each, where those of one shard are better read together."""
        ...

    def read(self, index: int) -> Path | BytesIO:
        """The file, or its bytes."""
        ...

    def file(self, index: int) -> Path:
        """The file that it is, or that it is in."""
        ...

    def name(self, index: int) -> str:
        """How messages call it."""
        ...

    def digest(self) -> str:
        """What tells these pictures from others: their names, labels and sizes, or where in a shard they are."""
        ...


@dataclass(frozen=True)
class Names:
    """Many names in two blocks of memory.

    As a million Python objects they take ten times as much, in every process: counting references copies the pages that
    processes otherwise share.
    """

    text: bytes
    ends: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        """The names in this order."""
        text, ends = bytearray(), array("q")
        for name in names:
            text += name.encode("utf-8", "surrogateescape")
            ends.append(len(text))
        return cls(bytes(text), np.array(ends, np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return self.text[start : int(self.ends[index])].decode("utf-8", "surrogateescape")
