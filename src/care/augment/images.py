"""Augmentations of images as values: what to crop, how to change the color, how much to blur."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from care.augment.boxes import central_box
from care.augment.values import Parameters

# The numbers of the operations in `order`.
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
COLOR_OPERATIONS = ("brightness", "contrast", "saturation", "hue")


@dataclass(frozen=True, repr=False, eq=False)
class ImageParameters(Parameters):
    """n augmentations of images of `input_shape` = (height, width) pixels to squares of `size` pixels.

    In this order: cut the box at (`top`, `left`) of `height` × `width` input pixels and resize it; `flip` left to
    right; apply the color operations in the order `order`, a permutation of 0 … 3 for brightness, contrast,
    saturation and hue; turn `gray`; `blur` with a Gaussian of width `sigma` on `kernel_size` pixels; `solarize`, that
    is invert values of at least `threshold`. A color factor of 1 and a hue of 0 mean "not applied".
    """

    top: Int[Tensor, " n"]
    left: Int[Tensor, " n"]
    height: Int[Tensor, " n"]
    width: Int[Tensor, " n"]
    flip: Bool[Tensor, " n"]
    order: Int[Tensor, "n 4"]
    brightness: Float[Tensor, " n"]
    contrast: Float[Tensor, " n"]
    saturation: Float[Tensor, " n"]
    hue: Float[Tensor, " n"]
    gray: Bool[Tensor, " n"]
    blur: Bool[Tensor, " n"]
    sigma: Float[Tensor, " n"]
    solarize: Bool[Tensor, " n"]
    input_shape: tuple[int, int]
    size: int
    kernel_size: int
    threshold: float = 0.5

    def steps(self, index: int) -> list[str]:
        """What one augmentation does, a phrase per operation, in the order of application."""
        row: dict[str, Any] = {name: tensor[index].tolist() for name, tensor in self._tensors()}
        parts = []
        if (row["top"], row["left"], row["height"], row["width"]) != (0, 0, *self.input_shape):
            parts.append(f"crop {row['height']}×{row['width']} at ({row['top']}, {row['left']})")
        if row["flip"]:
            parts.append("flip")
        for operation in row["order"]:
            name = COLOR_OPERATIONS[operation]
            if name == "hue" and row["hue"] != 0:
                parts.append(f"hue {row['hue']:+.3f}")
            elif name != "hue" and row[name] != 1:
                parts.append(f"{name} ×{row[name]:.2f}")
        if row["gray"]:
            parts.append("gray")
        if row["blur"]:
            parts.append(f"blur σ {row['sigma']:.2f}")
        if row["solarize"]:
            parts.append("solarize")
        return parts


def identity(n: int, input_shape: tuple[int, int], size: int, center: float = 1.0) -> ImageParameters:
    """n copies of the augmentation that changes only the size: it cuts the central box and resizes it."""
    top, left, height, width = (torch.full((n,), pixels) for pixels in central_box(input_shape, center))
    no, one = torch.zeros(n, dtype=torch.bool), torch.ones(n)
    return ImageParameters(
        top=top,
        left=left,
        height=height,
        width=width,
        flip=no,
        order=torch.arange(4).expand(n, 4),
        brightness=one,
        contrast=one,
        saturation=one,
        hue=0 * one,
        gray=no,
        blur=no,
        sigma=one,
        solarize=no,
        input_shape=input_shape,
        size=size,
        kernel_size=1,
    )
