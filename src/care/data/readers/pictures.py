"""Picture files of any size and kind, as squares of one size."""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from care.data.readers.source import Example, Unreadable
from care.randomness import derive

# Other formats are rare, and some of their decoders start other programs.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
FILES_AT_ONCE = 256
LARGEST_SIDE = 4096


def shuffled(files: Sequence[tuple[Path, int]]) -> list[tuple[Path, int]]:
    """The files in a random order that depends on nothing but their number.

    Folders are read class by class, and the first thousand images of a store should be of all classes.
    """
    return [files[i] for i in sorted(range(len(files)), key=lambda i: derive(0, "file", i))]


def read_pictures(files: Sequence[tuple[Path, int]], side: int) -> Iterator[Example | Unreadable]:
    """The pictures at the paths, with the labels that come with them, in order; decoded by several threads."""
    if not 1 <= side <= LARGEST_SIDE:
        raise ValueError(f"--size must be from 1 to {LARGEST_SIDE}, got {side}")
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        for start in range(0, len(files), FILES_AT_ONCE):
            # The filters of warnings belong to the process: they must be as they were whenever this yields.
            with _only_bombs_warn():
                read = list(threads.map(partial(_read_one, side=side), files[start : start + FILES_AT_ONCE]))
            yield from read


def decode(path: Path, side: int) -> UInt8[np.ndarray, "3 {side} {side}"]:
    """The center square of the picture, resized with antialiasing: the shorter side becomes `side` pixels.

    Color spaces become RGB, transparency is dropped, and an animation becomes its first frame. EXIF orientation is not
    applied.
    """
    if not path.is_file():
        raise OSError("it is missing or not a plain file")
    with Image.open(path, formats=FORMATS) as picture:
        width, height = picture.size
        edge = min(width, height)
        left, top = (width - edge) / 2, (height - edge) / 2
        box = (left, top, left + edge, top + edge)
        square = _rgb(picture).resize((side, side), Image.Resampling.BILINEAR, box)
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def _read_one(file: tuple[Path, int], side: int) -> Example | Unreadable:
    path, label = file
    try:
        return Example(decode(path, side), label)
    except Exception as error:  # decoders raise errors of any type, and the user must know the file
        return Unreadable(str(path), f"cannot be read as a picture ({type(error).__name__}: {_line(error, path)})")


def _line(error: Exception, path: Path) -> str:
    return " ".join(str(error).replace(repr(str(path)), "").split())


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16"):
        # Pillow would cut 16-bit gray off at 255 instead of scaling it.
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("I", "F"):
        raise ValueError(f"what is white is unknown for pixels of mode {picture.mode}")
    return picture.convert("RGB")


@contextmanager
def _only_bombs_warn() -> Iterator[None]:
    """Ignore Pillow's warnings, but raise that of pictures so large that they may be decompression bombs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield
