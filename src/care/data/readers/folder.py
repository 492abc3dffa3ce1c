"""Any folder of pictures with a folder per class, such as ImageNet's, or with pictures alone, which have no class."""

import os
from pathlib import Path

from care.data.readers.pictures import read_pictures, shuffled
from care.data.readers.source import Source

SPLITS = ("train", "val", "test")


def folder_splits(path: Path) -> tuple[str, ...]:
    """The splits that a folder has: PATH/train, PATH/val …, or only "train" where classes or pictures are in PATH."""
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    if not (path / "train").is_dir():
        return ("train",)
    return tuple(split for split in SPLITS if (path / split).is_dir())


def read_folder(path: Path, split: str, side: int) -> Source:
    """A split of the folder in `shuffled` order; the classes are the folders of the training pictures, by name.

    Where these are in no folders, there are no classes, and all labels are −1. Every file in the folder of a class, or
    in that of all pictures, must be a picture, except those whose names begin with a dot.
    """
    if split not in folder_splits(path):
        raise ValueError(f"{path} has no split {split!r}, only {', '.join(folder_splits(path))}")
    train, chosen = (path / part if (path / "train").is_dir() else path for part in ("train", split))
    classes, there = _folders(train), _folders(chosen)
    if unknown := sorted(set(there) - set(classes)):
        raise ValueError(f"{chosen / unknown[0]}: the training pictures have no such class")
    if classes and not there:
        raise ValueError(f"{chosen} has no folders of classes: pictures are expected in FOLDER/{split}/CLASS/")
    files = [(file, label) for label, name in enumerate(classes) for file in _files(chosen / name)]
    files = files if classes else [(file, -1) for file in _files(chosen)]
    if not files:
        raise ValueError(_nothing(chosen, classes))
    description = f"pictures of the folder {path.name}, {split}"
    return Source(description, classes, side, side, len(files), read_pictures(shuffled(files), side))


def _folders(folder: Path) -> tuple[str, ...]:
    """The names of the classes, if there are any."""
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")))


def _files(folder: Path) -> list[Path]:
    """All files of a class in the order of their paths, those in folders of folders too."""
    found = [Path(where) / name for where, _, names in os.walk(folder) for name in names if not name.startswith(".")]
    return sorted(found)


def _nothing(folder: Path, classes: tuple[str, ...]) -> str:
    if classes:
        return f"there is no file in the folders of classes in {folder}"
    wanted = "pictures are expected in FOLDER/train/CLASS/, or in FOLDER/train/ if they have no classes"
    return f"{folder} has no folders of classes and no pictures: {wanted}"
