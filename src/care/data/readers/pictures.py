"""Picture files with labels: decoded by several threads, in order."""

import hashlib
import os
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import PIL
from PIL import Image

import care
from care.data.readers.decoding import decode, formats, reason_of
from care.data.readers.source import Example, Unreadable
from care.randomness import derive

LARGEST_SIDE = 4096
AHEAD_PER_WORKER, AHEAD_BYTES = 8, 1 << 28  # what is decoded and not yet asked for


def shuffled(files: Sequence[tuple[Path, int]]) -> list[tuple[Path, int]]:
    """The files in a random order that depends on nothing but their number.

    Folders are read class by class, and the first thousand images of a store should be of all classes.
    """
    return [files[i] for i in sorted(range(len(files)), key=lambda i: derive(0, "file", i))]


def all_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Pictures:
    """The pictures at the paths, as squares of `side` pixels, with the labels that come with them.

    As many threads as `workers`, by default one per core, decode them ahead of what is asked for. The result does not
    depend on how many there are.
    """

    files: Sequence[tuple[Path, int]]
    side: int
    workers: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.side <= LARGEST_SIDE:
            raise ValueError(f"--size must be from 1 to {LARGEST_SIDE}, got {self.side}")

    def __iter__(self) -> Iterator[Example | Unreadable]:
        return self.after(0)

    def after(self, n: int) -> Iterator[Example | Unreadable]:
        """All but the first n, which are not read."""
        workers = self.workers or all_cores()
        most = max(workers, min(AHEAD_PER_WORKER * workers, AHEAD_BYTES // (3 * self.side**2)))
        formats()  # Pillow imports its formats here rather than in several threads at once
        with lenient_pillow(), ThreadPoolExecutor(workers, "care-pictures") as threads:
            requests = (threads.submit(_read, *file, self.side) for file in islice(self.files, n, None))
            ahead: deque[Future[Example | Unreadable]] = deque(islice(requests, most))
            try:
                while ahead:
                    found = ahead.popleft().result()
                    ahead.extend(islice(requests, 1))
                    yield found
            finally:
                threads.shutdown(wait=True, cancel_futures=True)

    def fingerprint(self) -> str:
        """The same as long as the files are, as far as their names, sizes and times of change tell, and all settings.

        The versions of care and Pillow are settings, too: others may decode differently.
        """
        digest = hashlib.sha256(f"{care.__version__} {PIL.__version__} {self.side}".encode())
        for path, label in self.files:
            try:
                about = os.stat(path)
                state = f"{label} {about.st_size} {about.st_mtime_ns}"
            except OSError:
                state = f"{label} missing"
            digest.update(os.fsencode(path) + b"\0" + state.encode() + b"\0")
        return digest.hexdigest()


def _read(path: Path, label: int, side: int) -> Example | Unreadable:
    try:
        return Example(decode(path, side), label)
    except Exception as error:  # decoders raise errors of any type, and the user must know the file
        return Unreadable(str(path), reason_of(error, path))


@contextmanager
def lenient_pillow() -> Iterator[None]:
    """Pillow without warnings, and without a limit of its own to the size of pictures: `decode` has one."""
    limit = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        Image.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit
