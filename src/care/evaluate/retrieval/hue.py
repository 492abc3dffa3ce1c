"""The color of an image: the mean hue of its pixels, and its strength."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

IMAGES_AT_ONCE = 1024

# Resizing and blurring can leave [0, 1] by this much.
ROUNDING = 1e-3


class Hues(NamedTuple):
    """The mean hue of n images, a fraction of the hue circle, and its strength: 0 = gray, 1 = one pure color."""

    angle: Float[Tensor, " n"]
    strength: Float[Tensor, " n"]


def mean_hue(images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]) -> Hues:
    """Angle and length of z = E_pixels C e^{2πiH}, with the hue H of HSV and the chroma C = max − min of each pixel.

    Images are bytes, or floating-point numbers in [0, 1]. If opposite colors cancel, or there is no color, the strength
    is close to 0 and the angle is meaningless: weight everything computed from the angle by the strength.
    """
    z = torch.cat([_mean_color(part) for part in images.split(IMAGES_AT_ONCE)])
    return Hues((z.angle() / (2 * math.pi)) % 1, z.abs())


def hue_distance(a: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The shorter arc between hues, a fraction of the hue circle: min(|a − b| mod 1, 1 − |a − b| mod 1), in [0, ½]."""
    around = (a - b).abs() % 1
    return torch.minimum(around, 1 - around)


def _mean_color(images: Tensor) -> Tensor:
    """E_pixels C e^{2πiH} for each image, as a complex number."""
    if images.dtype == torch.uint8:
        images = images / 255
    elif not (images.amin() >= -ROUNDING and images.amax() <= 1 + ROUNDING):
        raise ValueError("floating-point images must lie in [0, 1]: undo their normalization, or pass bytes")
    hue, chroma = _hue_and_chroma(images.to(torch.promote_types(images.dtype, torch.float32)))
    return torch.polar(chroma, 2 * math.pi * hue).mean((1, 2))


def _hue_and_chroma(images: Float[Tensor, "n 3 h w"]) -> tuple[Float[Tensor, "n h w"], Float[Tensor, "n h w"]]:
    """HSV's hue in [0, 1] and C = max − min: H = third + difference / 6C.

    The largest channel gives the third of the circle (red 0, green ⅓, blue ⅔), and the difference of the other two over
    C the offset into the neighboring sixth.
    """
    red, green, blue = images.unbind(1)
    largest, chroma = images.amax(1), images.amax(1) - images.amin(1)
    safe = torch.where(chroma == 0, 1, 6 * chroma)
    near_green, near_blue = 1 / 3 + (blue - red) / safe, 2 / 3 + (red - green) / safe
    hue = torch.where(largest == red, (green - blue) / safe, torch.where(largest == green, near_green, near_blue))
    return hue % 1, chroma
