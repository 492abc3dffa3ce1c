"""CIFAR-10 and CIFAR-100 as their authors publish them: plain binary files, or pickles for Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from care.data.readers.classes import CIFAR10_CLASSES, CIFAR100_CLASSES
from care.data.readers.members import members_of
from care.data.readers.pickles import as_bytes, read_pickle
from care.data.readers.source import DataSource, Example

SIDE = 32
PIXELS = 3 * SIDE * SIDE
ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Layout:
    """The folders of the binary and of the Python layout, and their files; binary files end in .bin.

    `label_bytes` is the number of bytes before the pixels of an image; the last of these bytes is the label. `labels`
    is the name of the list of labels in the pickles.
    """

    title: str
    binary: str
    python: str
    files: dict[str, tuple[str, ...]]
    label_bytes: int
    labels: str
    classes: tuple[str, ...]


CIFAR10 = Layout(
    "CIFAR-10",
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    label_bytes=1,
    labels="labels",
    classes=CIFAR10_CLASSES,
)
CIFAR100 = Layout(
    "CIFAR-100",
    "cifar-100-binary",
    "cifar-100-python",
    {"train": ("train",), "test": ("test",)},
    label_bytes=2,
    labels="fine_labels",
    classes=CIFAR100_CLASSES,
)


def read_cifar10(path: Path, split: str) -> DataSource:
    """CIFAR-10 from its folder, the folder around it or its archive, in the binary or the Python layout."""
    return _read(CIFAR10, path, split)


def read_cifar100(path: Path, split: str) -> DataSource:
    """CIFAR-100 with its 100 fine classes, from its folder, the folder around it or its archive, in either layout."""
    return _read(CIFAR100, path, split)


def _read(layout: Layout, path: Path, split: str) -> DataSource:
    expected = {"train": 50_000, "test": 10_000}[split]
    description = f"{layout.title} {split} from {path.name}"
    return DataSource(description, layout.classes, SIDE, SIDE, expected, _examples(layout, path, layout.files[split]))


def _examples(layout: Layout, path: Path, names: tuple[str, ...]) -> Iterator[Example]:
    for folder, suffix, read in ((layout.binary, ".bin", _read_binary), (layout.python, "", _read_python)):
        with members_of(path, folder) as members:
            if members.has(names[0] + suffix):
                for name in names:
                    with members.open(name + suffix) as file:
                        yield from _checked(layout, read(layout, file, members.describe(name + suffix)))
                return
    raise ValueError(
        f"{path} holds neither {names[0]}.bin nor {names[0]}: is it a folder or archive of {layout.title}?"
    )


@dataclass(frozen=True)
class Rows:
    """Some images of a file, a row of red, green and blue pixels each, and their labels."""

    pixels: UInt8[np.ndarray, "n pixels"]
    labels: list[int]
    file: str


def _checked(layout: Layout, read: Iterator[Rows]) -> Iterator[Example]:
    for rows in read:
        if not rows.labels or not 0 <= min(rows.labels) <= max(rows.labels) < len(layout.classes):
            raise ValueError(f"{rows.file} has no labels, or labels outside 0 to {len(layout.classes) - 1}")
        for image, label in zip(rows.pixels.reshape(-1, 3, SIDE, SIDE), rows.labels, strict=True):
            yield Example(image, label)


def _read_binary(layout: Layout, file: BufferedReader, described: str) -> Iterator[Rows]:
    width = layout.label_bytes + PIXELS
    while data := file.read(ROWS_AT_ONCE * width):
        if len(data) % width:
            raise ValueError(
                f"{described} is truncated or another kind of file: its length is not a multiple of {width} bytes"
            )
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        yield Rows(rows[:, layout.label_bytes :], rows[:, layout.label_bytes - 1].tolist(), described)


def _read_python(layout: Layout, file: BufferedReader, described: str) -> Iterator[Rows]:
    read = read_pickle(file, described)
    pixels, labels = as_bytes(read.get("data"), PIXELS, described), read.get(layout.labels)
    if not isinstance(labels, list) or len(labels) != len(pixels) or any(type(label) is not int for label in labels):
        raise ValueError(f"{described} has no {layout.labels} for its {len(pixels)} images")
    yield Rows(pixels, labels, described)
