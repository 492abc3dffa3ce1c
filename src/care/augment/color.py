"""Color operations on images in [0, 1], with one strength and one order per image."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from care.augment.images import BRIGHTNESS, CONTRAST, HUE, SATURATION
from care.augment.rows import by_rows, change_rows

LUMA = (0.2989, 0.587, 0.114)


def grayscale(images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1 h w"]:
    """0.2989 R + 0.587 G + 0.114 B."""
    red, green, blue = images.split(1, dim=1)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def jitter(
    images: Float[Tensor, "n 3 h w"],
    order: Int[Tensor, "n 4"],
    brightness: Float[Tensor, " n"],
    contrast: Float[Tensor, " n"],
    saturation: Float[Tensor, " n"],
    hue: Float[Tensor, " n"],
) -> Float[Tensor, "n 3 h w"]:
    """Brightness, contrast, saturation and hue, image i in the order order[i]. A CPU does it in place.

    Brightness, contrast and saturation blend an image with something of its own, so one `_blend` serves whichever is
    next. Hue costs as much as all of them: it is done once for all images, between the blends that come before it in
    an image's order and those that come after.
    """
    factors = torch.stack([brightness, contrast, saturation, torch.ones_like(hue)], dim=1)
    hue_position = (order == HUE).int().argmax(dim=1)
    blend = _blend_rows if by_rows(images) else _blend
    for k in range(3):
        images = blend(images, order[:, k], factors, k < hue_position)
    images = change_rows(images, hue != 0, lambda x, i: shift_hue(x, hue[i]))
    for k in range(1, 4):
        images = blend(images, order[:, k], factors, k > hue_position)
    return images


def _blend_rows(
    images: Float[Tensor, "n 3 h w"],
    operation: Int[Tensor, " n"],
    factors: Float[Tensor, "n 4"],
    active: Bool[Tensor, " n"],
) -> Float[Tensor, "n 3 h w"]:
    """`_blend`, one operation after the other, each on the images it is for: less work where rows can be picked."""
    for name, other in ((BRIGHTNESS, _black), (CONTRAST, _mean_gray), (SATURATION, grayscale)):
        rows = active & (operation == name) & (factors[:, name] != 1)
        factor = factors[:, name, None, None, None].to(images.dtype)
        images = change_rows(images, rows, partial(_blend_with, factor, other))
    return images


def _blend_with(factor: Tensor, other: Callable[[Tensor], Tensor], x: Tensor, rows: slice | Tensor) -> Tensor:
    return (factor[rows] * x + (1 - factor[rows]) * other(x)).clamp(0, 1)


def _black(images: Tensor) -> Tensor:
    return torch.zeros_like(images[:, :1])


def _mean_gray(images: Tensor) -> Tensor:
    return grayscale(images).mean((2, 3), keepdim=True)


def _blend(
    images: Float[Tensor, "n 3 h w"],
    operation: Int[Tensor, " n"],
    factors: Float[Tensor, "n 4"],
    active: Bool[Tensor, " n"],
) -> Float[Tensor, "n 3 h w"]:
    """clamp(φ x + (1 − φ) y): y is black for brightness, the mean gray for contrast, x in gray for saturation."""
    factor = torch.where(active, factors.gather(1, operation[:, None]).squeeze(1), 1.0)[:, None, None, None]
    operation = operation[:, None, None, None]
    gray = grayscale(images)
    other = torch.where(operation == CONTRAST, gray.mean((2, 3), keepdim=True), gray)
    other = torch.where(operation == BRIGHTNESS, 0.0, other)
    return (factor.to(images.dtype) * images + (1 - factor).to(images.dtype) * other).clamp(0, 1)


def shift_hue(images: Float[Tensor, "n 3 h w"], shift: Float[Tensor, " n"]) -> Float[Tensor, "n 3 h w"]:
    """Shift the hue of HSV by `shift`, a fraction of the hue circle, keeping saturation and value.

    With hue H in sextants, value V and chroma C = V − min: channel = V − C · clamp(min(k, 4 − k), 0, 1), where
    k = (offset + H) mod 6 and the offset is 5, 3, 1 for red, green, blue.
    """
    red, green, blue = images.unbind(1)
    value, chroma = images.amax(1), images.amax(1) - images.amin(1)
    safe = torch.where(chroma == 0, 1, chroma)
    from_red, from_green, from_blue = (green - blue) / safe, 2 + (blue - red) / safe, 4 + (red - green) / safe
    hue = torch.where(value == red, from_red, torch.where(value == green, from_green, from_blue))
    hue = hue + 6 * shift.to(images.dtype)[:, None, None]
    offsets = (5 - 2 * torch.arange(3, device=images.device))[None, :, None, None]
    k = (offsets + hue[:, None]) % 6
    return value[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp(0, 1)
