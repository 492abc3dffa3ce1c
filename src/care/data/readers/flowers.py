"""Flowers-102 as its authors publish it: a folder of pictures, and two MATLAB files with labels and splits."""

from pathlib import Path

import numpy as np

from care.data.readers.classes import FLOWER_CLASSES
from care.data.readers.mat5 import read_mat5
from care.data.readers.pictures import Pictures, shuffled
from care.data.readers.source import DataSource

FOLDER, LABELS, SPLITS = "flowers-102", "imagelabels.mat", "setid.mat"
# The lists in setid.mat that make up a split.
PARTS = {"train": ("trnid",), "val": ("valid",), "test": ("tstid",), "train+val+test": ("trnid", "valid", "tstid")}


def read_flowers(path: Path, split: str, side: int) -> DataSource:
    """Flowers-102 from the folder that holds `jpg`, `imagelabels.mat` and `setid.mat`, or the folder around it.

    The pictures come in `shuffled` order.
    """
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    labels = _array(folder / LABELS, "labels")
    chosen = [number for part in PARTS[split] for number in _array(folder / SPLITS, part)]
    if min(labels) < 1 or max(labels) > len(FLOWER_CLASSES):
        raise ValueError(f"{folder / LABELS} has labels outside 1 to {len(FLOWER_CLASSES)}")
    if min(chosen) < 1 or max(chosen) > len(labels):
        raise ValueError(f"{folder / SPLITS} names pictures outside 1 to {len(labels)}")
    files = [(folder / "jpg" / f"image_{number:05d}.jpg", labels[number - 1] - 1) for number in chosen]
    return DataSource(
        f"Flowers-102 {split} from {path.name}",
        FLOWER_CLASSES,
        side,
        side,
        len(files),
        Pictures(shuffled(files), side),
    )


def _array(file: Path, name: str) -> list[int]:
    if not file.is_file():
        raise ValueError(f"{file} is missing: is {file.parent} the folder of Flowers-102?")
    arrays = read_mat5(file)
    if name not in arrays or arrays[name].size == 0 or not np.all(arrays[name] == arrays[name].astype(np.int64)):
        raise ValueError(f"{file} has no array of integers called {name}")
    return arrays[name].astype(np.int64).ravel().tolist()
