"""A few pictures of files and folders, to be looked at: decoded as those that are trained on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from care.data.readers.decoding import decode, reason_of
from care.data.readers.files import pictures_in
from care.data.readers.pictures import lenient_pillow

MOST = 16  # more rows than a screen has are of no use


def read_few(paths: Sequence[Path], side: int) -> tuple[UInt8[Tensor, "n 3 side side"], int]:
    """Pictures at `paths`, and in the folders among them, as central squares of `side` pixels; and how many there are.

    A folder that holds no picture itself stands for those in all its folders, such as photos/cat/1.jpg, by path. Of
    more than 16 pictures, 16 that are evenly spaced are read, the first and the last among them.
    """
    files = [file for path in paths for file in (_pictures_of(path) if path.is_dir() else [path])]
    chosen = np.linspace(0, len(files) - 1, min(len(files), MOST)).round().astype(int)
    with lenient_pillow():
        return torch.from_numpy(np.stack([_decoded(files[i], side) for i in chosen])), len(files)


def _pictures_of(folder: Path) -> list[Path]:
    """Its own pictures, or else, in the order of their paths, those of the folders in it, however deep."""
    found, _ = pictures_in(folder)
    own = [file for file in found if file.parent == folder]
    if not found:
        raise ValueError(f"there is no picture in {folder}, nor in its folders")
    return own or found


def _decoded(file: Path, side: int) -> UInt8[np.ndarray, "3 {side} {side}"]:
    try:
        return decode(file, side)
    except Exception as error:  # the decoders fail in any way they like, and the user must learn on which file
        raise ValueError(f"{file} {reason_of(error, file)}") from error
