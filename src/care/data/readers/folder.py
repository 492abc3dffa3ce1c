"""Any folder of pictures with a folder per class, such as ImageNet's."""

import os
from pathlib import Path

from care.data.readers.pictures import mixed, read_pictures
from care.data.readers.source import Source

SPLITS = ("train", "val", "test")


def folder_splits(path: Path) -> tuple[str, ...]:
    """The splits that a folder has: PATH/train/CLASS, PATH/val/CLASS …, or only "train" for PATH/CLASS."""
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    if not (path / "train").is_dir():
        return ("train",)
    return tuple(split for split in SPLITS if (path / split).is_dir())


def read_folder(path: Path, split: str, side: int) -> Source:
    """A split of the folder in `mixed` order; the classes are those of the training pictures, by name.

    Every file in the folder of a class must be a picture, except those whose names begin with a dot.
    """
    if split not in folder_splits(path):
        raise ValueError(f"{path} has no split {split!r}, only {', '.join(folder_splits(path))}")
    train, chosen = (path / part if (path / "train").is_dir() else path for part in ("train", split))
    classes = _classes(train)
    if unknown := sorted(set(_classes(chosen)) - set(classes)):
        raise ValueError(f"{chosen / unknown[0]}: the training pictures have no such class")
    files = [(file, label) for label, name in enumerate(classes) for file in _files(chosen / name)]
    if not files:
        raise ValueError(f"there is no file in the folders of classes in {chosen}")
    description = f"pictures of the folder {path.name}, {split}"
    return Source(description, classes, side, side, len(files), read_pictures(mixed(files), side))


def _classes(folder: Path) -> tuple[str, ...]:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise ValueError(f"{folder} has no folders of classes: pictures are expected in FOLDER/train/CLASS/")
    return tuple(names)


def _files(folder: Path) -> list[Path]:
    """All files of a class in the order of their paths, those in folders of folders too."""
    found = [Path(where) / name for where, _, names in os.walk(folder) for name in names if not name.startswith(".")]
    return sorted(found)
