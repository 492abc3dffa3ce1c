"""A background thread for writing checkpoints while training goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any


class Writer:
    """A thread that performs one write at a time. If a write fails, the next `write` or `wait` raises its error.

    Data to be written must not change until the write is done. Leaving the context waits for it.
    """

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")
        self.pending: Future[Any] | None = None

    def write(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Start `work(*arguments)`, after waiting for the previous write."""
        self.wait()
        self.pending = self.thread.submit(work, *arguments)

    def wait(self) -> None:
        """Return when the last write is done; raise its error if it failed."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.thread.shutdown(wait=True)
