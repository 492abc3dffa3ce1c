"""The interface of pictures that are decoded on demand."""

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
    """Encoded pictures on the disk, each of which any process can read independently.

    They are numbered from 0, and the numbers stay the same as long as the files do. The order of an epoch, the position
    at which a run is resumed and the shares of processes are therefore indices, as for a store.
    """

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        """The class of each picture, −1 for pictures without a class."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        ...

    @property
    def shards(self) -> Int64[Tensor, " n"] | None:
        """The shard of each picture, if pictures of one shard are better read together."""
        ...

    def read(self, index: int) -> Path | BytesIO:
        """The path of a picture, or its bytes."""
        ...

    def file(self, index: int) -> Path:
        """The file of a picture, or the archive that holds it."""
        ...

    def name(self, index: int) -> str:
        """The name of a picture in messages."""
        ...

    def digest(self) -> str:
        """A digest that identifies the pictures: of their names, labels and sizes, or their positions in shards."""
        ...


@dataclass(frozen=True)
class Names:
    """Many names in two blocks of memory.

    A million Python strings would take ten times as much, in every process: reference counting copies the memory pages
    that processes otherwise share.
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
