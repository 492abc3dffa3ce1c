"""Read a few pictures to show, decoded like training pictures."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from care.data.readers.decoding import decode, reason_of
from care.data.readers.files import pictures_in
from care.data.readers.folder import LARGEST
from care.data.readers.pictures import lenient_pillow
from care.data.readers.side import stored_side

MOST = 16  # more rows would not fit on a screen


def read_few(
    paths: Sequence[Path], side: int | None, say: Callable[[str], None] = lambda sentence: None
) -> tuple[UInt8[Tensor, "n 3 side side"], int]:
    """Pictures at `paths`, and in the folders among them, as center squares of `side` pixels; and their total number.

    By default squares have 256 pixels, or the shorter side of most pictures if that is less, as those of `read_folder`.

    A folder without pictures of its own stands for the pictures in all its subfolders, such as photos/cat/1.jpg, by
    path. Of more than 16 pictures, 16 are read, evenly spaced from the first to the last. `say` is told which of these
    cannot be read; ValueError if none can, or if an unreadable picture is in `paths` itself.
    """
    files = [file for path in paths for file in (_pictures_of(path) if path.is_dir() else [path])]
    chosen = np.linspace(0, len(files) - 1, min(len(files), MOST)).round().astype(int)
    side = side or stored_side(files, LARGEST)
    read = []
    with lenient_pillow():
        for file in (files[i] for i in chosen):
            try:
                read.append(_decoded(file, side))
            except ValueError as error:
                if file in paths or len(chosen) == 1:
                    raise
                say(f"left out: {error}")
    if not read:
        raise ValueError(f"none of the {len(chosen)} chosen pictures can be read")
    return torch.from_numpy(np.stack(read)), len(files)


def _pictures_of(folder: Path) -> list[Path]:
    """The folder's own pictures or, if it has none, those of all its subfolders in the order of their paths."""
    found, _ = pictures_in(folder)
    own = [file for file in found if file.parent == folder]
    if not found:
        raise ValueError(f"there is no picture in {folder} or its subfolders")
    return own or found


def _decoded(file: Path, side: int) -> UInt8[np.ndarray, "3 {side} {side}"]:
    try:
        return decode(file, side)
    except Exception as error:  # decoders raise errors of any type, and the user must know the file
        raise ValueError(f"{file} {reason_of(error, file)}") from error
