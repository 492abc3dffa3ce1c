"""Color operations on images in [0, 1], with one strength and one order per image."""

import itertools

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
    """Brightness, contrast, saturation and hue of image i in the order order[i]. On a CPU, in place.

    Brightness, contrast and saturation blend an image with another one made from it, so one `_blend` serves whichever
    is next. Hue costs as much as these three: it is applied once to all images, between the blends that come before
    it in an image's order and those that come after.
    """
    factors = torch.stack([brightness, contrast, saturation, torch.ones_like(hue)], dim=1)
    hue_position = (order == HUE).int().argmax(dim=1)
    if by_rows(images):
        return _jitter_rows(images, order, hue_position, factors, hue)
    for k in range(3):
        images = _blend(images, order[:, k], factors, k < hue_position)
    images = change_rows(images, hue != 0, lambda x, i: shift_hue(x, hue[i]))
    for k in range(1, 4):
        images = _blend(images, order[:, k], factors, k > hue_position)
    return images


def _jitter_rows(
    images: Float[Tensor, "n 3 h w"],
    order: Int[Tensor, "n 4"],
    hue_position: Int[Tensor, " n"],
    factors: Float[Tensor, "n 4"],
    hue: Float[Tensor, " n"],
) -> Float[Tensor, "n 3 h w"]:
    """`jitter` in place, each operation only on the images that need it."""
    place = torch.arange(4)[:, None]
    blends = torch.stack([(order == name) & (factors[:, name, None] != 1) for name, _ in BLENDS], dim=1)
    blends = blends.permute(2, 1, 0)  # [place in the order, operation, image]
    _blend_rows(images, blends & (place < hue_position)[:, None], factors)
    change_rows(images, hue != 0, lambda x, i: shift_hue(x, hue[i]))
    _blend_rows(images, blends & (place > hue_position)[:, None], factors)
    return images


def _blend_rows(
    images: Float[Tensor, "n 3 h w"], blends: Bool[Tensor, "place operation n"], factors: Float[Tensor, "n 4"]
) -> None:
    """Replace x by clamp(φ x + (1 − φ) y), one operation after the other, where `blends` is true."""
    counts = blends.sum(2).flatten().tolist()
    for rows, (name, other) in zip(blends.nonzero()[:, 2].split(counts), itertools.cycle(BLENDS)):
        if len(rows):
            x, factor = images.index_select(0, rows), factors[rows, name, None, None, None].to(images.dtype)
            y = other(x)
            images.index_copy_(0, rows, x.mul_(factor).add_((1 - factor) * y).clamp_(0, 1))


def _black(images: Tensor) -> Tensor:
    return torch.zeros_like(images[:, :1])


def _mean_gray(images: Tensor) -> Tensor:
    return grayscale(images).mean((2, 3), keepdim=True)


# The image that each operation blends with.
BLENDS = ((BRIGHTNESS, _black), (CONTRAST, _mean_gray), (SATURATION, grayscale))


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
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    safe = torch.where(chroma == 0, 1, chroma)
    from_red, from_green, from_blue = (green - blue) / safe, 2 + (blue - red) / safe, 4 + (red - green) / safe
    hue = torch.where(value == red, from_red, torch.where(value == green, from_green, from_blue))
    hue = hue + 6 * shift.to(images.dtype)[:, None, None]
    offsets = (5 - 2 * torch.arange(3, device=images.device))[None, :, None, None]
    k = (offsets + hue[:, None]).remainder_(6)  # in place, like the next line: memory traffic is the bottleneck
    return value[:, None] - torch.minimum(k, 4 - k).clamp_(0, 1).mul_(chroma[:, None])
