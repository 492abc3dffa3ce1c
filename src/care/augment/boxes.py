"""The boxes that crops cut out of images: (top, left, height, width) in pixels."""

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
    input_shape: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    image_aspect: Float[Tensor, " n"] | None = None,
) -> tuple[Int[Tensor, " n"], ...]:
    """torchvision's RandomResizedCrop, from uniform numbers in [0, 1).

    Each try has an area uniform in `scale` times the image and an aspect log-uniform in `ratio`. The first try that
    fits into the image is placed uniformly; if none fits, the box is the largest central one with an aspect in `ratio`.

    `image_aspect` is the aspect W/H of each whole picture that was squeezed into a square input. The drawn aspects
    apply to the whole picture, so in the square they are divided by it.
    """
    pixels = (scale[0] + area * (scale[1] - scale[0])) * (input_shape[0] * input_shape[1])
    aspect = (math.log(ratio[0]) + aspect * math.log(ratio[1] / ratio[0])).exp()
    aspect = aspect if image_aspect is None else aspect / image_aspect[:, None]
    heights, widths = (pixels / aspect).sqrt().round().long(), (pixels * aspect).sqrt().round().long()
    fits = (heights > 0) & (heights <= input_shape[0]) & (widths > 0) & (widths <= input_shape[1])
    first = fits.int().argmax(dim=1, keepdim=True)
    height, width = heights.gather(1, first).squeeze(1), widths.gather(1, first).squeeze(1)
    drawn = ((top * (input_shape[0] - height + 1)).long(), (left * (input_shape[1] - width + 1)).long(), height, width)
    fallback: tuple[Tensor | int, ...] = _largest_box(input_shape, ratio)
    if image_aspect is not None:
        fallback = _largest_squeezed_box(input_shape, ratio, image_aspect)
    return tuple(torch.where(fits.any(dim=1), box, other) for box, other in zip(drawn, fallback, strict=True))


def central_box(input_shape: tuple[int, int], fraction: float) -> tuple[int, int, int, int]:
    """The central square whose side is `fraction` of the shorter side.

    At 1, the whole of a square image; at 0.875, the usual test view of ImageNet (resize to 256, cut the central 224).
    """
    side = max(1, round(fraction * min(input_shape)))
    return (input_shape[0] - side) // 2, (input_shape[1] - side) // 2, side, side


def central_boxes(
    input_shape: tuple[int, int], fraction: float, image_aspect: Float[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], ...]:
    """`central_box` for whole pictures of the aspects `image_aspect`, squeezed into a square input."""
    side = fraction * input_shape[0]
    return _centered(input_shape, side * image_aspect.clamp_max(1), side / image_aspect.clamp_min(1))


def _largest_squeezed_box(
    input_shape: tuple[int, int], ratio: tuple[float, float], image_aspect: Float[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], ...]:
    """`_largest_box` in whole pictures that were squeezed into a square input."""
    height, width = (image_aspect / ratio[0]).clamp_max(1), (ratio[1] / image_aspect).clamp_max(1)
    return _centered(input_shape, height * input_shape[0], width * input_shape[1])


def _centered(
    input_shape: tuple[int, int], height: Float[Tensor, " n"], width: Float[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], ...]:
    height, width = (length.round().long().clamp_min(1) for length in (height, width))
    return (input_shape[0] - height) // 2, (input_shape[1] - width) // 2, height, width


def _largest_box(input_shape: tuple[int, int], ratio: tuple[float, float]) -> tuple[int, int, int, int]:
    height, width = input_shape
    if width / height < ratio[0]:
        height = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        width = max(1, round(height * ratio[1]))
    return (input_shape[0] - height) // 2, (input_shape[1] - width) // 2, height, width
