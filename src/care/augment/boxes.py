"""Which box of an image a crop cuts out: (top, left, height, width) in pixels."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

CROP_TRIES = 10


def random_boxes(
    area: Float[Tensor, "n tries"],
    aspect: Float[Tensor, "n tries"],
    top: Float[Tensor, " n"],
    left: Float[Tensor, " n"],
    source: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> tuple[Int[Tensor, " n"], ...]:
    """torchvision's RandomResizedCrop, out of uniform numbers in [0, 1).

    Each try has an area uniform in `scale` times the image and an aspect log-uniform in `ratio`. The first try that
    fits into the image is placed uniformly; if none fits, the box is the largest central one with an aspect in `ratio`.
    """
    pixels = (scale[0] + area * (scale[1] - scale[0])) * (source[0] * source[1])
    aspect = (math.log(ratio[0]) + aspect * math.log(ratio[1] / ratio[0])).exp()
    heights, widths = (pixels / aspect).sqrt().round().long(), (pixels * aspect).sqrt().round().long()
    fits = (heights > 0) & (heights <= source[0]) & (widths > 0) & (widths <= source[1])
    first = fits.int().argmax(dim=1, keepdim=True)
    height, width = heights.gather(1, first).squeeze(1), widths.gather(1, first).squeeze(1)
    drawn = ((top * (source[0] - height + 1)).long(), (left * (source[1] - width + 1)).long(), height, width)
    fallback = _largest_box(source, ratio)
    return tuple(torch.where(fits.any(dim=1), box, other) for box, other in zip(drawn, fallback, strict=True))


def central_box(source: tuple[int, int], fraction: float) -> tuple[int, int, int, int]:
    """The central square whose side is `fraction` of the shorter side.

    At 1, the whole of a square image; at 0.875, the usual test view of ImageNet (resize to 256, cut the central 224).
    """
    side = max(1, round(fraction * min(source)))
    return (source[0] - side) // 2, (source[1] - side) // 2, side, side


def _largest_box(source: tuple[int, int], ratio: tuple[float, float]) -> tuple[int, int, int, int]:
    height, width = source
    if width / height < ratio[0]:
        height = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        width = max(1, round(height * ratio[1]))
    return (source[0] - height) // 2, (source[1] - width) // 2, height, width
