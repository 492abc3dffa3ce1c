"""One augmentation written as text: "hue=+0.1,brightness=1.3"."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.augment.images import ImageParameters


class Range(NamedTuple):
    """The values that a change may have, as numbers and in words."""

    low: float
    high: float
    words: str
    above: bool = False  # `low` itself is excluded
    switch: bool = False  # only `low` and `high` themselves

    def holds(self, value: float) -> bool:
        """Whether the value is allowed."""
        if self.switch:
            return value in (self.low, self.high)
        return self.low < value <= self.high or (value == self.low and not self.above)


FACTOR = Range(0, 100, "a factor above 0 and at most 100; 1 changes nothing", above=True)
SHIFT = Range(-1, 1, "a shift in sides of the un-augmented view, from -1 to 1")
SWITCH = Range(0, 1, "0 or 1", switch=True)

CHANGES = {
    "brightness": FACTOR,
    "contrast": FACTOR,
    "saturation": FACTOR,
    "hue": Range(-0.5, 0.5, "a fraction of the hue circle from -0.5 to 0.5"),
    "x": SHIFT,
    "y": SHIFT,
    "zoom": Range(0, 100, "a factor on the crop's side, above 0 and at most 100; less than 1 zooms in", above=True),
    "flip": SWITCH,
    "gray": SWITCH,
    "blur": Range(0, 100, "the width of the blur in pixels, above 0 and at most 100", above=True),
}


def read_changes(text: str) -> dict[str, float]:
    """The changes in a text like "hue=+0.1,brightness=1.3", by name; `CHANGES` has the names and allowed values."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"cannot read the change {part.strip()!r}: write it like hue=+0.1,brightness=1.3")
        if name in found:
            raise ValueError(f"{name} is given twice: give each change once")
        found[name] = _number(name, number)
    _check(found)
    return found


def changed(unchanged: ImageParameters, values: Mapping[str, float]) -> ImageParameters:
    """The augmentations `unchanged`, as `policy.unchanged` returns them, with these changes.

    `x` and `y` shift the crop's center to the right and down, in units of its side; `zoom` multiplies its sides. The
    crop stays inside the picture, so a crop of the whole picture moves only with a zoom below 1. Colors keep the order
    of `unchanged`. `blur` is the σ of a kernel of `unchanged`'s size; without such a kernel, of one that reaches 3 σ.
    """
    _check(values)
    fields: dict[str, Any] = _box(unchanged, values)
    for name in {"brightness", "contrast", "saturation", "hue"} & set(values):
        fields[name] = torch.full_like(getattr(unchanged, name), values[name])
    for name in {"flip", "gray"} & set(values):
        fields[name] = torch.full_like(getattr(unchanged, name), bool(values[name]))
    if "blur" in values:
        fields["blur"] = torch.ones_like(unchanged.blur)
        fields["sigma"] = torch.full_like(unchanged.sigma, values["blur"])
        if unchanged.kernel_size == 1:
            fields["kernel_size"] = 2 * min(math.ceil(3 * values["blur"]), unchanged.size - 1) + 1
    return dataclasses.replace(unchanged, **fields)


def _box(unchanged: ImageParameters, values: Mapping[str, float]) -> dict[str, Int[Tensor, " n"]]:
    """The box of the crop: its center shifted, its sides scaled, and then pushed back into the picture."""
    rows, columns = unchanged.input_shape
    most = torch.minimum(columns / unchanged.width, rows / unchanged.height)
    zoom = most.clamp_max(values.get("zoom", 1.0))
    left, width = _stretch(unchanged.left, unchanged.width, values.get("x", 0.0), zoom, columns)
    top, height = _stretch(unchanged.top, unchanged.height, values.get("y", 0.0), zoom, rows)
    return {"top": top, "left": left, "height": height, "width": width}


def _stretch(
    start: Int[Tensor, " n"], length: Int[Tensor, " n"], shift: float, zoom: Float[Tensor, " n"], pixels: int
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """One axis of the box: the new start and the new length."""
    center = start + (0.5 + shift) * length
    longer = (zoom * length).round().clamp(1, pixels)
    corner = torch.minimum((center - longer / 2).round(), pixels - longer).clamp_min(0)
    return corner.to(start.dtype), longer.to(length.dtype)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {text!r}")
    return value


def _check(values: Mapping[str, float]) -> None:
    for name, value in values.items():
        if name not in CHANGES:
            raise ValueError(f"unknown change {name!r}: choose one of {', '.join(CHANGES)}")
        if not CHANGES[name].holds(value):
            raise ValueError(f"{name} must be {CHANGES[name].words}, got {value:g}")
