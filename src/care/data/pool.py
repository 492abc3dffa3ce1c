"""Worker processes that decode pictures. They are forked from the parent process, and end with it."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Generic, TypeVar

from care.data.readers import decoding

SECONDS_BETWEEN_LOOKS = 0.2
TURNS_AHEAD = 2  # calls submitted ahead, per process
ENDING = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")
_inherited: Callable[..., Any] | None = None  # the function that a worker inherits from its parent


def all_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_of_this_process() -> int:
    """This process's share of the cores, given torchrun's number of processes on this machine."""
    return max(1, all_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class Pool(Generic[Result]):
    """A context in which `workers` processes call a function that they inherit from their parent.

    Where processes cannot be forked, threads call it instead.
    """

    def __init__(self, call: Callable[..., Result], workers: int) -> None:
        decoding.formats()  # Pillow imports its formats here rather than in each process
        self.executor: Executor
        if sys.platform.startswith("linux"):
            fork = multiprocessing.get_context("fork")
            given = (call, os.getpid(), fork.Lock())
            self.executor, self.call, self.workers = ProcessPoolExecutor(workers, fork, _begin, given), _call, workers
        else:
            self.executor, self.call, self.workers = ThreadPoolExecutor(workers, "care-decoders"), call, workers

    def submit(self, *arguments: object) -> Callable[[], Result]:
        """Start a call; calling the returned function waits for its result."""
        with signals_later():  # the first call forks
            future = self.executor.submit(self.call, *arguments)

        def wait() -> Result:
            try:
                return future.result()
            except BrokenProcessPool:
                raise OSError("a process that decodes pictures was killed: is there too little memory?") from None

        return wait

    def in_order(self, arguments: Iterable[object]) -> Iterator[Result]:
        """The result of a call for each argument, in order; only a few calls are submitted ahead."""
        begun = (self.submit(argument) for argument in arguments)
        ahead = deque(islice(begun, TURNS_AHEAD * self.workers))
        while ahead:
            found = ahead.popleft()()
            ahead.extend(islice(begun, 1))
            yield found

    def close(self) -> None:
        """Wait for the running calls, and end the processes."""
        self.executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> "Pool[Result]":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()


@contextmanager
def signals_later() -> Iterator[None]:
    """Block SIGINT and SIGTERM in this context; a process forked in it unblocks them when it is set up."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where nothing is forked
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(call: Callable[..., Any], parent: int, large: AbstractContextManager[Any]) -> None:
    """Set up a worker: ignore signals, which the parent handles after its step, and exit when the parent is gone."""
    global _inherited
    _inherited, decoding.LARGE = call, large
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_leave_without, args=(parent,), daemon=True).start()


def _call(*arguments: object) -> Any:
    assert _inherited is not None
    return _inherited(*arguments)


def _leave_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
