"""Processes that decode pictures into memory which they share with the process that trains."""

import math
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from types import TracebackType

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from care.data.pool import TURNS_AHEAD, Pool, cores_of_this_process
from care.data.readers.pictures import lenient_pillow
from care.data.streamed.cache import Cache
from care.data.streamed.pictures import StreamedPictures

PICTURES_AT_ONCE = 8  # that a process is asked for: asking takes as long as a twentieth of decoding one
FEWEST_AHEAD = 2  # batches

Slots = UInt8[np.ndarray, "slots rows bytes"]


@dataclass(frozen=True)
class Work:
    """What is decoded, into what, and how."""

    pictures: StreamedPictures
    slots: Slots
    whole: bool
    cache: Cache | None = None

    def decode(self, slot: int, rows: list[int], indices: list[int]) -> dict[str, str]:
        """Put pictures into some rows of a slot; which files could not be read, and why."""
        problems = dict[str, str]()
        with lenient_pillow():
            for row, index in zip(rows, indices, strict=True):
                problems |= self._fill(self.slots[slot, row], index)
        return problems

    def _fill(self, row: UInt8[np.ndarray, " bytes"], index: int) -> dict[str, str]:
        decode = partial(self.pictures.decode_into, row, index, self.whole)
        return decode() if self.cache is None else self.cache.fill(row, index, decode)


class Decoders:
    """A context in which batches of at most `rows` pictures are decoded, `ahead` of them at a time."""

    def __init__(self, pictures: StreamedPictures, rows: int, whole: bool) -> None:
        workers = pictures.workers or cores_of_this_process()
        self.pictures, self.rows, self.whole = pictures, rows, whole
        self.ahead = max(FEWEST_AHEAD, math.ceil(TURNS_AHEAD * workers * PICTURES_AT_ONCE / rows))
        shape = (self.ahead, rows, pictures.row_bytes(whole))
        # Anonymous: /dev/shm, which tensors in shared memory take their room from, has 64 MB in many containers.
        self.slots = np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)
        self.free: Iterator[int] = cycle(range(self.ahead))
        self.cache = pictures.opened_cache(whole)
        self.pool = Pool(Work(pictures, self.slots, whole, self.cache).decode, workers)

    def request(self, indices: Int64[Tensor, " batch"]) -> Callable[[bool], Shaped[Tensor, "batch ..."]]:
        """Begin to decode the pictures at `indices`; calling the result waits for them, and copies them.

        The result is to be called before the slot comes up again, `ahead` requests later.
        """
        if len(indices) > self.rows:
            raise ValueError(f"a batch of {len(indices)} pictures follows one of {self.rows}: the first is the largest")
        slot, parts = next(self.free), self._by_shard(indices).split(PICTURES_AT_ONCE)
        begun = [self.pool.submit(slot, rows.tolist(), indices[rows].tolist()) for rows in parts]
        return lambda pin: self._collected(slot, len(indices), begun, pin)

    def _by_shard(self, indices: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The rows of a batch, those of one shard together, or every process would unpack all shards that it is of.

        Shards come in the order in which the batch does, in which those that are done with are before new ones.
        """
        shards = self.pictures.encoded.shards
        if shards is None:
            return torch.arange(len(indices))
        seen = dict[int, int]()
        places = [seen.setdefault(shard, len(seen)) for shard in shards[indices].tolist()]
        return torch.tensor(places, dtype=torch.int64).argsort(stable=True)

    def _collected(self, slot: int, n: int, begun: list[Callable[[], dict[str, str]]], pin: bool) -> Tensor:
        for wait in begun:
            self.pictures.report(wait())
        if self.cache is not None:
            self.cache.tell()
        batch = torch.empty((n, self.slots.shape[2]), dtype=torch.uint8, pin_memory=pin)
        batch.copy_(torch.from_numpy(self.slots[slot, :n]))
        return batch if self.whole else batch.view(n, *self.pictures.shape[1:])

    def __enter__(self) -> "Decoders":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.pool.close()
