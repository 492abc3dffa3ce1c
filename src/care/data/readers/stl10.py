"""STL-10 as its authors publish it: raw bytes, column by column, and labels that count from 1."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from care.data.readers.classes import STL10_CLASSES
from care.data.readers.members import Members, members_of
from care.data.readers.source import DataSource, Example

FOLDER, SIDE = "stl10_binary", 96

# The parts of each split, and the number of images of each part.
PARTS = {
    "train": ("train",),
    "test": ("test",),
    "unlabeled": ("unlabeled",),
    "train+unlabeled": ("train", "unlabeled"),
}
EXPECTED = {"train": 5_000, "test": 8_000, "unlabeled": 100_000}


def read_stl10(path: Path, split: str) -> DataSource:
    """STL-10 from its folder, the folder around it or its archive. Unlabeled images have the label −1."""
    parts = PARTS[split]
    expected = sum(EXPECTED[part] for part in parts)
    return DataSource(f"STL-10 {split} from {path.name}", STL10_CLASSES, SIDE, SIDE, expected, _examples(path, parts))


def _examples(path: Path, parts: tuple[str, ...]) -> Iterator[Example]:
    with members_of(path, FOLDER) as members:
        for part in parts:
            yield from _part(members, part)


def _part(members: Members, part: str) -> Iterator[Example]:
    labels, count = None if part == "unlabeled" else _labels(members, f"{part}_y.bin"), 0
    described = members.describe(f"{part}_X.bin")
    with members.open(f"{part}_X.bin") as file:
        while data := file.read(3 * SIDE * SIDE):
            if len(data) != 3 * SIDE * SIDE or (labels is not None and count == len(labels)):
                raise ValueError(f"{described} is truncated, or longer than its labels")
            columns = np.frombuffer(data, np.uint8).reshape(3, SIDE, SIDE)
            yield Example(columns.transpose(0, 2, 1), -1 if labels is None else labels[count])
            count += 1
    if labels is not None and count != len(labels):
        raise ValueError(f"{described} has {count} images, but there are {len(labels)} labels")


def _labels(members: Members, name: str) -> list[int]:
    with members.open(name) as file:
        labels = [byte - 1 for byte in file.read()]
    if not labels or not 0 <= min(labels) <= max(labels) < len(STL10_CLASSES):
        raise ValueError(f"{members.describe(name)} has no labels, or labels outside 1 to {len(STL10_CLASSES)}")
    return labels
