"""The data sets known by name, and how they are generated or read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from care.data.chains import CLASSES as CHAIN_CLASSES
from care.data.chains import generate_chains, longest_axes
from care.data.readers import read_cifar10, read_cifar100, read_flowers, read_folder, read_stl10
from care.data.readers.download import Download
from care.data.readers.folder import LARGEST
from care.data.readers.source import DataSource
from care.data.samples import Samples

# The number of samples of each generated split, and its seed.
GENERATED_SPLITS = {"train": (20_000, 1), "test": (4_000, 2)}


@dataclass(frozen=True)
class Generated:
    """A data set that is computed when it is loaded: `generate(n, seed)`.

    `prefix` says that a sample does not depend on n, so the first samples can be generated without the others.
    """

    summary: str
    generate: Callable[[int, int], Samples]
    splits: tuple[str, ...] = tuple(GENERATED_SPLITS)
    prefix: bool = False


@dataclass(frozen=True)
class Published:
    """A data set that is read from files: `read(folder, split, pixels)`.

    `pixels` is the default side of the pictures in a store, None if it cannot be chosen. `splits` is empty if they
    depend on the files. `page` is the web page with the files.
    """

    summary: str
    read: Callable[[Path, str, Any], DataSource]
    splits: tuple[str, ...] = ()
    pixels: int | None = None
    page: str = ""
    download: Download | None = None


def _chains(n: int, seed: int) -> Samples:
    chains = generate_chains(n, seed)
    classes, factors = tuple(f"fold {i}" for i in range(CHAIN_CLASSES)), {"axis": longest_axes(chains.points)}
    return Samples(chains.points, chains.labels, classes, factors, name="chains")


def _shapes(n: int, seed: int) -> Samples:
    from care.data.shapes import generate_shapes

    shapes = generate_shapes(n, seed)
    return Samples(shapes.images, shapes.labels, shapes.classes, dict(shapes.factors), name="shapes")


ANY_FOLDER = Published("pictures in folders, one per class, or without classes", read_folder, pixels=LARGEST)

DATA_SETS: dict[str, Generated | Published] = {
    "chains": Generated("generated protein-like point clouds, 10 classes", _chains),
    "shapes": Generated("generated pictures of colored shapes, 32 × 32, 10 classes", _shapes, prefix=True),
    "cifar10": Published(
        "CIFAR-10: photos, 32 × 32, 10 classes",
        lambda path, split, *_: read_cifar10(path, split),
        ("train", "test"),
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        download=Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
        ),
    ),
    "cifar100": Published(
        "CIFAR-100: photos, 32 × 32, 100 classes",
        lambda path, split, *_: read_cifar100(path, split),
        ("train", "test"),
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        download=Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"
        ),
    ),
    "stl10": Published(
        "STL-10: photos, 96 × 96, 10 classes, most without labels",
        lambda path, split, *_: read_stl10(path, split),
        ("train", "test", "unlabeled", "train+unlabeled"),
        page="https://cs.stanford.edu/~acoates/stl10/",
        download=Download(
            "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"
        ),
    ),
    "flowers102": Published(
        "Flowers-102: photos of flowers, 102 classes",
        read_flowers,
        ("train", "val", "test", "train+val+test"),
        pixels=128,
        page="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    ),
    "imagenet100": Published(
        "ImageNet-100: photos in folders, one per class",
        read_folder,
        pixels=256,
        page="https://www.image-net.org/download.php",
    ),
}
