"""Pictures given in Python as a source: a tensor, `Samples`, or any map-style data set of pictures."""

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median_high
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from care.data.readers.decoding import as_rgb
from care.data.readers.pictures import shuffled
from care.data.readers.source import DataSource, Example
from care.data.samples import Samples
from care.data.streamed.tables import IMAGES, LABELS

PIXELS = 256  # the side of pictures of different sizes, or less if they are smaller, as for pictures in folders
LOOKED_AT = 16  # pictures examined to find out whether all have the same size


class Examples(Dataset[Example]):
    """The items of `pictures` as examples of `size` = (height, width).

    An item is a picture, (picture, label), or {"image": picture, "label": label} as in the library `datasets`. A
    picture is a PIL image, or an array of uint8 or of floats in [0, 1], with shape [3, h, w], [1, h, w] or [h, w], in
    NumPy also [h, w, 3]. A picture of another size is center-cropped to the aspect ratio of `size` and resized with
    antialiasing. Labels are used only if `pictures` names its classes: the number of a class, also as a tensor or array
    of one number, its name, or None or −1 for a picture without a class.
    """

    def __init__(self, pictures: Any, pixels: int | None = None) -> None:
        self.pictures = pictures
        self.count = _count(pictures)
        self.classes = _classes(pictures)
        self.size = (pixels, pixels) if pixels else self._common_size()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Example:
        picture, label = self._item(index)
        return Example(_resized(picture, self.size), label)

    def _item(self, index: int) -> tuple[UInt8[np.ndarray, "3 h w"], int]:
        if isinstance(self.pictures, Samples):
            return self.pictures.inputs[index].numpy(), int(self.pictures.labels[index])
        item = self.pictures[index]
        try:
            picture, label = _picture_and_label(item)
            return _uint8(picture), _class_number(label, self.classes)
        except ValueError as error:
            raise ValueError(f"item {index} cannot be trained on: {error}") from error

    def _common_size(self) -> tuple[int, int]:
        """The common size of a sample of the pictures; if they differ, a square of 256 pixels or of the shorter side of
        most, as in a folder: enlarging adds nothing."""
        positions = np.linspace(0, self.count - 1, min(LOOKED_AT, self.count)).round().astype(int)
        height, width = zip(*(self._item(int(i))[0].shape[1:] for i in positions), strict=True)
        if len(set(height)) == len(set(width)) == 1:
            return height[0], width[0]
        side = min(PIXELS, median_high(map(min, height, width)))
        return side, side


def read_dataset(pictures: Any, pixels: int | None = None, workers: int = 0) -> DataSource:
    """The pictures in a random order that depends only on their number, read once by `workers` processes.

    Pictures of one size keep it; others become squares of `pixels`, by default 256 or their own side. The classes are
    `pictures.classes`, an attribute of torchvision's data sets and of `Samples`; without it there are no classes.
    """
    examples = Examples(pictures, pixels)
    loader = DataLoader(
        examples, batch_size=None, sampler=shuffled(range(len(examples))), num_workers=workers, collate_fn=_as_it_is
    )
    words = f"{type(pictures).__name__} given in Python"
    notes = (_without_names(pictures),) if _has_unnamed_labels(examples) else ()
    return DataSource(words, examples.classes, *examples.size, len(examples), iter(loader), notes)


def _has_unnamed_labels(examples: Examples) -> bool:
    """Whether the first item has a label, which is not used: there are no names of classes."""
    if examples.classes or isinstance(examples.pictures, Samples):
        return False
    with suppress(ValueError):  # that the item has no picture is an error when it is read
        return _picture_and_label(examples.pictures[0])[1] is not None
    return False


def _without_names(pictures: Any) -> str:
    kind = type(pictures).__name__
    return f"the labels are not used, since this {kind} has no `classes`: give a data set that names them there"


def _picture_and_label(item: Any) -> tuple[Any, Any]:
    """The picture and the label of an item; the label is None if there is none."""
    if isinstance(item, Mapping):
        named = [name for name in IMAGES if name in item]
        if not named:
            raise ValueError(f"no picture among its keys {', '.join(map(str, item))}: expected image or img")
        return item[named[0]], next((item[name] for name in LABELS if name in item), None)
    return (item[0], item[1]) if isinstance(item, tuple | list) and len(item) > 1 else (item, None)


def _class_number(label: Any, classes: tuple[str, ...]) -> int:
    """The number of the class that a label names, −1 for none; ValueError for anything else."""
    if not classes or label is None:
        return -1
    one = isinstance(label, np.generic | np.ndarray | Tensor) and math.prod(label.shape) == 1
    value = label.item() if one else label
    if isinstance(value, str) and value in classes:
        return classes.index(value)
    if isinstance(value, int | float) and value in range(-1, len(classes)):
        return int(value)
    shown = textwrap.shorten(str(label), 40)
    wanted = f"return the name of a class, its number from 0 to {len(classes) - 1}, or None"
    raise ValueError(f"its label {shown} is none of the {len(classes)} classes: {wanted}")


def _count(pictures: Any) -> int:
    if isinstance(pictures, Samples) and len(pictures.input_shape) == 1:
        raise ValueError("point clouds cannot be passed as Samples: for point clouds, use the data set chains")
    if isinstance(pictures, Mapping):
        names = " and ".join(map(str, pictures))
        raise ValueError(f"a dict of {names} cannot be trained on: pass one of them as data, and another as heldout")
    if isinstance(pictures, DataLoader):
        raise ValueError("a DataLoader cannot be trained on: give its dataset, care draws the batches")
    in_any_order = isinstance(pictures, Samples) or hasattr(pictures, "__getitem__")
    if isinstance(pictures, IterableDataset) or not (in_any_order and hasattr(pictures, "__len__")):
        kinds = "a tensor, a list of pictures, or a torch.utils.data.Dataset with __len__ and __getitem__"
        raise ValueError(f"{type(pictures).__name__} cannot be trained on: give a folder, {kinds}")
    if len(pictures) == 0:
        raise ValueError(f"this {type(pictures).__name__} holds no pictures")
    return len(pictures)


def _classes(pictures: Any) -> tuple[str, ...]:
    """The names of the classes, looked up in the data set behind a `Subset`, too, and as in the library `datasets`."""
    while not hasattr(pictures, "classes") and hasattr(pictures, "dataset"):
        pictures = pictures.dataset
    features = getattr(pictures, "features", None)
    columns = [features[name] for name in LABELS if name in features] if isinstance(features, Mapping) else []
    found = getattr(pictures, "classes", getattr(next(iter(columns), None), "names", None))
    return tuple(map(str, found)) if isinstance(found, Sequence) and not isinstance(found, str) else ()


def _uint8(picture: Any) -> UInt8[np.ndarray, "3 h w"]:
    """Any picture in 8 bits and three channels; ValueError for anything else."""
    if isinstance(picture, Image.Image):
        return np.asarray(as_rgb(picture)).transpose(2, 0, 1)
    if isinstance(picture, np.ndarray):
        last = picture.ndim == 3 and picture.shape[2] in (1, 3) and picture.shape[0] not in (1, 3)
        picture = torch.from_numpy(picture.transpose(2, 0, 1) if last else picture)
    if not isinstance(picture, Tensor):
        hint = ": open it, or give the folder" if isinstance(picture, str | os.PathLike) else ""
        raise ValueError(f"expected a PIL image, a tensor or a NumPy array, got {type(picture).__name__}{hint}")
    picture = picture[None] if picture.ndim == 2 else picture
    if picture.ndim != 3 or picture.shape[0] not in (1, 3):
        raise ValueError(f"expected a picture [3, height, width], got {list(picture.shape)}")
    return _levels(picture).expand(3, -1, -1).cpu().numpy()


def _levels(picture: Tensor) -> Tensor:
    """uint8 unchanged; floats in [0, 1] times 255, rounded."""
    if picture.dtype == torch.uint8:
        return picture
    if not picture.is_floating_point():
        raise ValueError(f"pictures must be uint8 or floating point in [0, 1], got {picture.dtype}")
    low, high = picture.min().item(), picture.max().item()
    if not (low >= 0 and high <= 1):
        hint = "divide by 255, or take Normalize out of the transform: care normalizes pictures itself"
        raise ValueError(
            f"floating-point pictures must be in [0, 1], but this one goes from {low:.3g} to {high:.3g}: {hint}"
        )
    return (picture * 255).round().to(torch.uint8)


def _resized(picture: UInt8[np.ndarray, "3 h w"], size: tuple[int, int]) -> UInt8[np.ndarray, "3 {size[0]} {size[1]}"]:
    """The largest centered box of the wanted aspect ratio, resized; the picture itself if it has the right size."""
    (height, width), (h, w) = picture.shape[1:], size
    if (height, width) == size:
        return np.ascontiguousarray(picture)
    scale = min(height / h, width / w)
    left, top = (width - scale * w) / 2, (height - scale * h) / 2
    box = (left, top, left + scale * w, top + scale * h)
    whole = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
    return np.ascontiguousarray(np.asarray(whole.resize((w, h), Image.Resampling.BILINEAR, box)).transpose(2, 0, 1))


def _as_it_is(example: Any) -> Any:
    return example
