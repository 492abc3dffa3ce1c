"""Processes that decode pictures into memory which they share with the process that trains."""

import math
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import cycle
from types import TracebackType

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from care.data.readers.decoding import formats
from care.data.readers.pictures import all_cores, lenient_pillow
from care.data.streamed.pictures import StreamedPictures

PICTURES_AT_ONCE = 8  # that a process is asked for: asking takes as long as a twentieth of decoding one
TURNS_AHEAD = 2  # of every process
FEWEST_AHEAD = 2  # batches
SECONDS_BETWEEN_LOOKS = 1.0

Slots = UInt8[np.ndarray, "slots rows bytes"]
_inherited: "Work | None" = None  # a process has its work from its parent


@dataclass(frozen=True)
class Work:
    """What is decoded, into what, and how."""

    pictures: StreamedPictures
    slots: Slots
    whole: bool

    def decode(self, slot: int, first: int, indices: list[int]) -> dict[str, str]:
        """Put pictures into the rows of a slot from `first` on; which files could not be read, and why."""
        problems = dict[str, str]()
        with lenient_pillow():
            for row, index in zip(self.slots[slot, first:], indices, strict=False):
                problems |= self.pictures.decode_into(row, index, self.whole)
        return problems


class Decoders:
    """A context in which batches of at most `rows` pictures are decoded, `ahead` of them at a time.

    Where processes cannot be forked, threads decode, which share one interpreter with the training.
    """

    def __init__(self, pictures: StreamedPictures, rows: int, whole: bool) -> None:
        workers = pictures.workers or cores_of_this_process()
        self.pictures, self.rows, self.whole = pictures, rows, whole
        self.ahead = max(FEWEST_AHEAD, math.ceil(TURNS_AHEAD * workers * PICTURES_AT_ONCE / rows))
        shape = (self.ahead, rows, pictures.row_bytes(whole))
        # Anonymous: /dev/shm, which tensors in shared memory take their room from, has 64 MB in many containers.
        self.slots = np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)
        self.free: Iterator[int] = cycle(range(self.ahead))
        self.executor, self.decode = _start(Work(pictures, self.slots, whole), workers)

    def request(self, indices: Int64[Tensor, " batch"]) -> Callable[[bool], Shaped[Tensor, "batch ..."]]:
        """Begin to decode the pictures at `indices`; calling the result waits for them, and copies them.

        The result is to be called before the slot comes up again, `ahead` requests later.
        """
        if len(indices) > self.rows:
            raise ValueError(f"a batch of {len(indices)} pictures follows one of {self.rows}: the first is the largest")
        slot = next(self.free)
        firsts, parts = range(0, len(indices), PICTURES_AT_ONCE), indices.split(PICTURES_AT_ONCE)
        tasks = ((slot, first, part.tolist()) for first, part in zip(firsts, parts, strict=False))
        futures = [self.executor.submit(self.decode, *task) for task in tasks]
        return lambda pin: self._collected(slot, len(indices), futures, pin)

    def _collected(self, slot: int, n: int, futures: list[Future[dict[str, str]]], pin: bool) -> Tensor:
        try:
            for future in futures:
                self.pictures.report(future.result())
        except BrokenProcessPool:
            raise OSError("a process that decodes pictures was killed: is there too little memory?") from None
        batch = torch.empty((n, self.slots.shape[2]), dtype=torch.uint8, pin_memory=pin)
        batch.copy_(torch.from_numpy(self.slots[slot, :n]))
        return batch if self.whole else batch.view(n, *self.pictures.shape[1:])

    def __enter__(self) -> "Decoders":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


def cores_of_this_process() -> int:
    """Its share of the cores; torchrun says how many processes there are on this machine."""
    return max(1, all_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _start(work: Work, workers: int) -> tuple[Executor, Callable[..., dict[str, str]]]:
    """Who decodes, and what to ask them for."""
    formats()  # Pillow imports its formats here rather than in each process
    if not sys.platform.startswith("linux"):
        return ThreadPoolExecutor(workers, "care-decoders"), work.decode
    fork = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(workers, fork, _begin, (work, os.getpid())), _decode


def _begin(work: Work, parent: int) -> None:
    """Signals are the parent's to answer, which finishes its step; without a parent there is nothing to do."""
    global _inherited
    _inherited = work
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_leave_without, args=(parent,), daemon=True).start()


def _decode(slot: int, first: int, indices: list[int]) -> dict[str, str]:
    assert _inherited is not None
    return _inherited.decode(slot, first, indices)


def _leave_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
