"""Writing to disk while training goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any


class Writer:
    """A thread that writes one thing at a time. What could not be written is raised by the next `write` or `wait`.

    Hand it what nobody changes any more. On leaving, everything handed over has been tried.
    """

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")
        self.pending: Future[None] | None = None

    def write(self, work: Callable[..., None], *arguments: Any) -> None:
        """Begin `work(*arguments)` as soon as what was handed over before is written."""
        self.wait()
        self.pending = self.thread.submit(work, *arguments)

    def wait(self) -> None:
        """Return when everything is written."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.thread.shutdown(wait=True)
