"""Pictures that behave like a tensor of squares and are decoded on demand."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from care.data.readers.decoding import decode, decode_whole, reason_of
from care.data.readers.pictures import LARGEST_SIDE, lenient_pillow
from care.data.readers.source import default_skip
from care.data.streamed.cache import Cache
from care.data.streamed.encoded import EncodedPictures
from care.whole_pictures import row_bytes, write_row

Decoder = Literal["cpu", "gpu"]
STAND_INS = 100  # the most pictures tried in place of an unreadable one


@dataclass(frozen=True, eq=False)
class StreamedPictures:
    """uint8 [n, 3, side, side]: the center square of every picture, as in a store.

    Batches can also hold whole pictures (`care.whole_pictures`). The next readable picture of the same class, always
    the same one, replaces an unreadable picture, so that the label stays right. `unreadable` has these files and the
    reasons: as many as a store may leave out (1 %, and at least 10) give warnings, more are an OSError. With the
    `decoder` "gpu", the GPU of a batch decodes its JPEGs. The folder `cache`, if there is one, keeps pictures that the
    CPU decodes for batches.
    """

    encoded: EncodedPictures
    side: int
    workers: int | None = None
    decoder: Decoder = "cpu"
    unreadable: dict[str, str] = field(default_factory=dict)
    cache: Path | None = None
    _caches: dict[bool, Cache] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.side <= LARGEST_SIDE:
            raise ValueError(f"pictures are decoded to squares of 1 to {LARGEST_SIDE} pixels, got {self.side}")
        if self.cache is not None and self.decoder == "gpu":
            raise ValueError("a cache keeps pictures decoded by the CPU: leave out `cache` or `decoder` gpu")

    dtype, device, ndim = torch.uint8, torch.device("cpu"), 4

    def __len__(self) -> int:
        return len(self.encoded.labels)

    @cached_property
    def shape(self) -> torch.Size:
        """The shape, as of a tensor."""
        return torch.Size((len(self), 3, self.side, self.side))

    def __getitem__(self, index: int | slice) -> UInt8[Tensor, "... 3 h w"]:
        rows = torch.arange(len(self))[index]
        return self.index_select(0, rows) if rows.ndim else self.index_select(0, rows[None])[0]

    def index_select(self, dim: int, rows: Int64[Tensor, " k"]) -> UInt8[Tensor, "k 3 h w"]:
        """Some of the pictures, decoded one after the other in this process; `batches` uses worker processes."""
        assert dim == 0
        found = np.empty((len(rows), self.row_bytes(whole=False)), np.uint8)
        with lenient_pillow():
            for row, index in zip(found, rows.tolist(), strict=True):
                self.report(self.decode_into(row, index, whole=False))
        return torch.from_numpy(found).view(len(rows), *self.shape[1:])

    def row_bytes(self, whole: bool) -> int:
        """The bytes of one picture in a batch."""
        return row_bytes(self.side) if whole else 3 * self.side**2

    def opened_cache(self, whole: bool) -> Cache | None:
        """The cache of center squares, or of whole pictures; the same object at every call."""
        if self.cache is not None and whole not in self._caches:
            self._caches[whole] = Cache(self.cache, self.encoded, self.side, whole, self.row_bytes(whole))
        return self._caches.get(whole)

    def decode_into(self, row: UInt8[np.ndarray, " bytes"], index: int, whole: bool) -> dict[str, str]:
        """Decode a picture into the row of a batch; returns the files that could not be read for it, with reasons."""
        problems = dict[str, str]()
        for candidate in self._candidates(index):
            file = None
            try:
                file = self.encoded.read(candidate)
                if whole:
                    write_row(row, *decode_whole(file, self.side))
                else:
                    row[:] = decode(file, self.side).reshape(-1)
                return problems
            except Exception as error:  # decoders raise errors of any type, and the user must know the file
                problems[self.encoded.name(candidate)] = reason_of(error, file) if file else _read_error(error)
        raise OSError(_too_many(problems, len(self)))

    def _candidates(self, index: int) -> Iterator[int]:
        """The picture itself, then the pictures of its class after it, cyclically."""
        yield index
        alike = (self.encoded.labels == self.encoded.labels[index]).nonzero().flatten()
        later = int(torch.searchsorted(alike, index)) + 1
        yield from alike.roll(-later)[: min(STAND_INS, len(alike)) - 1].tolist()

    def report(self, problems: dict[str, str]) -> None:
        """Warn of unreadable files; OSError if there are too many by now."""
        for file in problems.keys() - self.unreadable.keys():
            self.unreadable[file] = problems[file]
            warnings.warn(f"{file} {problems[file]}: another picture takes its place", stacklevel=2)
        if len(self.unreadable) > default_skip(len(self)):
            raise OSError(_too_many(self.unreadable, len(self)))


def _too_many(problems: dict[str, str], of: int) -> str:
    file, reason = next(iter(problems.items()))
    return f"{len(problems):,} of {of:,} pictures cannot be read, the first of them: {file} {reason}"


def _read_error(error: Exception) -> str:
    """One line that says why the bytes of a picture could not be read."""
    system = error.strerror if isinstance(error, OSError) else None
    return f"cannot be read ({system or ' '.join(str(error).split())})"
