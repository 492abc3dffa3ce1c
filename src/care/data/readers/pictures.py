"""Picture files with labels."""

import hashlib
import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import PIL
from PIL import Image

import care
from care.data.readers.decoding import decode, reason_of
from care.data.readers.source import Example, Unreadable
from care.randomness import derive

LARGEST_SIDE = 4096


def shuffled(files: Sequence[tuple[Path, int]]) -> list[tuple[Path, int]]:
    """The files in a random order that depends on nothing but their number.

    Folders are read class by class, and the first thousand images of a store should be of all classes.
    """
    return [files[i] for i in sorted(range(len(files)), key=lambda i: derive(0, "file", i))]


@dataclass(frozen=True)
class Pictures:
    """The pictures at the paths, as squares of `side` pixels, with the labels that come with them.

    Any of them can be read by itself.
    """

    files: Sequence[tuple[Path, int]]
    side: int

    def __post_init__(self) -> None:
        if not 1 <= self.side <= LARGEST_SIDE:
            raise ValueError(f"--size must be from 1 to {LARGEST_SIDE}, got {self.side}")

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


class _Lenient:
    """Pillow is the same for all threads: the first that comes makes it lenient, the last that goes strict again."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """As nobody has come yet."""
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
    os.register_at_fork(after_in_child=_LENIENT.begin)  # a thread that is not there any more may hold the lock


def lenient_pillow() -> AbstractContextManager[None]:
    """Pillow without warnings, and without a limit of its own to the size of pictures: `decode` has one."""
    return _LENIENT
