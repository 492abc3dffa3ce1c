"""Picture files with labels."""

import hashlib
import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import PIL
from PIL import Image

import care
from care.data.readers.decoding import decode, reason_of
from care.data.readers.source import Example, Unreadable
from care.randomness import derive

LARGEST_SIDE = 4096

T = TypeVar("T")


def shuffled(pictures: Sequence[T]) -> list[T]:
    """The pictures in a random order that depends only on their number.

    They are often sorted by class, but the first thousand images of a store should show all classes.
    """
    return [pictures[i] for i in sorted(range(len(pictures)), key=lambda i: derive(0, "file", i))]


@dataclass(frozen=True)
class Pictures:
    """The pictures in `files`, as squares of `side` pixels, with their labels.

    Each picture can be read independently.
    """

    files: Sequence[tuple[Path, int]]
    side: int

    def __post_init__(self) -> None:
        if not 1 <= self.side <= LARGEST_SIDE:
            raise ValueError(f"pixels must be from 1 to {LARGEST_SIDE}, got {self.side}")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Example | Unreadable:
        path, label = self.files[index]
        try:
            with lenient_pillow():
                return Example(decode(path, self.side), label)
        except Exception as error:  # decoders raise errors of any type, and the user must know the file
            return Unreadable(str(path), reason_of(error, path))

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and times of change, and of all settings.

        It includes the versions of care and Pillow, because other versions may decode differently.
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


class _Lenient:
    """Pillow's settings are global: the first thread to enter makes it lenient, the last to leave strict again."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset, with no thread inside."""
        self.lock, self.inside, self.undo = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.undo.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self.undo.callback(setattr, Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
                Image.MAX_IMAGE_PIXELS = None
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.undo.close()


_LENIENT = _Lenient()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LENIENT.begin)  # a thread that is missing in the child may hold the lock


def lenient_pillow() -> AbstractContextManager[None]:
    """Disable Pillow's warnings and its limit on the size of pictures, in place of which `decode` has its own."""
    return _LENIENT
