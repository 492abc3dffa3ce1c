"""Worker processes that decode pictures into memory shared with the training process."""

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

PICTURES_AT_ONCE = 8  # pictures per request to a process: a request takes a twentieth of the time to decode one
FEWEST_AHEAD = 2  # batches

Slots = UInt8[np.ndarray, "slots rows bytes"]


@dataclass(frozen=True)
class Work:
    """The work of a decoding process: the pictures, the shared memory for rows, and the cache."""

    pictures: StreamedPictures
    slots: Slots
    whole: bool
    cache: Cache | None = None

    def decode(self, slot: int, rows: list[int], indices: list[int]) -> dict[str, str]:
        """Decode pictures into rows of a slot; returns the unreadable files with reasons."""
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
        # Anonymous memory, because shared tensors use /dev/shm, which has only 64 MB in many containers.
        self.slots = np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)
        self.free: Iterator[int] = cycle(range(self.ahead))
        self.cache = pictures.opened_cache(whole)
        self.pool = Pool(Work(pictures, self.slots, whole, self.cache).decode, workers)

    def request(self, indices: Int64[Tensor, " batch"]) -> Callable[[bool], Shaped[Tensor, "batch ..."]]:
        """Start to decode the pictures at `indices`; calling the returned function waits for them and copies them.

        Call it before the slot is reused, `ahead` requests later.
        """
        if len(indices) > self.rows:
            raise ValueError(f"a batch of {len(indices)} pictures follows one of {self.rows}: make the first largest")
        slot, parts = next(self.free), self._by_shard(indices).split(PICTURES_AT_ONCE)
        begun = [self.pool.submit(slot, rows.tolist(), indices[rows].tolist()) for rows in parts]
        return lambda pin: self._collected(slot, len(indices), begun, pin)

    def _by_shard(self, indices: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The rows of a batch grouped by shard, so that not every process unpacks all shards of the batch.

        Shards keep the order of their first row in the batch: shards that are nearly finished come before new ones.
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
