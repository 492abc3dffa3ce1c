"""Augmentations as coordinates θ: 0 = unchanged, and as additive under composition as possible.

For images, in the order in which the operations are applied:

    x, y          how far the crop's center is from the middle, in sides of the un-augmented view
    scale         log of the crop's side (the root of its area) over the side of the un-augmented view
    aspect        log of width / height
    flip          0 or 1
    brightness, contrast, saturation    logs of the factors
    hue           shift, as a fraction of the hue circle
    gray          0 or 1
    blur          variance of the kernel in pixels², which, unlike σ, adds up when one blur follows another
    solarize      0 or 1

For point clouds: the rotation vector (axis × angle, the logarithm of the rotation) and the log of the scale. The jitter
is noise and has no coordinate.

Some effects are not additive in any coordinates. Color operations do not commute, so their order matters besides θ, and
they clamp at black and white. Contrast depends on the mean of the picture after the preceding operations. A crop of a
crop shifts in units of its own size, not the picture's, and never beyond the border. Flip, gray and solarize are on or
off (a second gray does nothing, a second flip undoes the first). A blur reflects at the border. Rotation vectors add
only for a common axis, and at an angle of π, v and −v are the same rotation.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment.images import ImageParameters
from care.augment.points import PointParameters, rotation_from_quaternion
from care.augment.values import Parameters

IMAGE_NAMES = (
    "x", "y", "scale", "aspect", "flip",
    "brightness", "contrast", "saturation", "hue",
    "gray", "blur", "solarize",
)  # fmt: skip
HUE = IMAGE_NAMES.index("hue")
POINT_NAMES = ("rotation_x", "rotation_y", "rotation_z", "scale")

# A picture this dark, flat or gray is indistinguishable from one with factor 0, whose logarithm is infinite.
SMALLEST_FACTOR = 0.01


def coordinate_names(augmentations: Parameters) -> tuple[str, ...]:
    """The names of the columns of `coordinates`."""
    if isinstance(augmentations, ImageParameters):
        return IMAGE_NAMES
    if isinstance(augmentations, PointParameters):
        return POINT_NAMES
    raise ValueError(f"only augmentations of images and of point clouds can be steered, not {_kind(augmentations)}")


def coordinates(augmentations: Parameters, center: float = 1.0) -> Float[Tensor, "n k"]:
    """θ of every augmentation, where the un-augmented view is the central square of `center` times the shorter side."""
    if isinstance(augmentations, ImageParameters):
        return torch.cat([_crop_coordinates(augmentations, center), _other_coordinates(augmentations)], dim=1)
    if isinstance(augmentations, PointParameters):
        vector = rotation_vector(augmentations.rotation)
        return torch.cat([vector, augmentations.scale.to(vector)[:, None].log()], dim=1)
    raise ValueError(f"only augmentations of images and of point clouds can be steered, not {_kind(augmentations)}")


def relative(theta1: Float[Tensor, "n k"], theta2: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """The coordinates of the change from a view with θ1 to one with θ2.

    For images, θ2 − θ1 with the hue the shorter way around its circle; for clouds, those of R2 R1ᵀ and of the ratio of
    the scales.
    """
    if theta1.shape[1] != len(POINT_NAMES):
        before, hue, after = (theta2 - theta1).tensor_split((HUE, HUE + 1), dim=1)
        return torch.cat([before, (hue + 0.5) % 1 - 0.5, after], dim=1)
    R1, R2 = (_rotation(theta[:, :3]) for theta in (theta1, theta2))
    return torch.cat([rotation_vector(R2 @ R1.mT).to(theta1), theta2[:, 3:] - theta1[:, 3:]], dim=1)


def rotation_vector(R: Float[Tensor, "n 3 3"]) -> Float[Tensor, "n 3"]:
    """axis × angle of a rotation, the angle in [0, π]: R = exp([v]×), through the unit quaternion (w, u).

    The angle is 2 atan2(‖u‖, w), accurate near both 0 and π. Every column of the symmetric 4 × 4 matrix
    4 q qᵀ is a multiple of the quaternion; the longest one is free of cancellation.
    """
    R = R.double()
    (a, b, c), (d, e, f), (g, h, i) = (row.unbind(1) for row in R.unbind(1))
    rows = (
        (1 + a + e + i, h - f, c - g, d - b),
        (h - f, 1 + a - e - i, b + d, c + g),
        (c - g, b + d, 1 - a + e - i, f + h),
        (d - b, c + g, f + h, 1 - a - e + i),
    )
    outer = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    longest = outer.square().sum(1).argmax(1)
    q = outer[torch.arange(len(R), device=R.device), :, longest]
    q = torch.where(q[:, :1] < 0, -q, q)
    length = q[:, 1:].norm(dim=1, keepdim=True)
    angle = 2 * torch.atan2(length, q[:, :1])
    return torch.where(length > 0, angle * q[:, 1:] / length.clamp_min(1e-300), 0.0).float()


def _rotation(v: Float[Tensor, "n 3"]) -> Float[Tensor, "n 3 3"]:
    """exp([v]×), through the quaternion (cos φ/2, sin φ/2 · v/φ), φ = ‖v‖."""
    half = v.double().norm(dim=1, keepdim=True) / 2
    return rotation_from_quaternion(torch.cat([half.cos(), torch.sinc(half / math.pi) * v.double() / 2], dim=1))


def _crop_coordinates(p: ImageParameters, center: float) -> Float[Tensor, "n 4"]:
    (rows, columns), height, width = p.input_shape, p.height.float(), p.width.float()
    side = float(max(1, round(center * min(p.input_shape))))
    middle = [(length - side) // 2 + side / 2 for length in (columns, rows)]  # center of the un-augmented view
    return torch.stack(
        [
            (p.left + width / 2 - middle[0]) / side,
            (p.top + height / 2 - middle[1]) / side,
            (height * width).log() / 2 - math.log(side),
            (width / height).log(),
        ],
        dim=1,
    )


def _other_coordinates(p: ImageParameters) -> Float[Tensor, "n 8"]:
    factors = [f.clamp_min(SMALLEST_FACTOR).log() for f in (p.brightness, p.contrast, p.saturation)]
    blur = torch.where(p.blur, _blur_variance(p), 0.0)
    columns = [p.flip, *factors, p.hue, p.gray, blur, p.solarize]
    return torch.stack([column.float() for column in columns], dim=1)


def _blur_variance(p: ImageParameters) -> Float[Tensor, " n"]:
    """Σ t² g(t) for the kernel g(t) ∝ exp(−t²/2σ²) on |t| ≤ (kernel_size − 1)/2."""
    t = torch.arange(-(p.kernel_size // 2), p.kernel_size // 2 + 1, device=p.sigma.device)
    weights = torch.exp(-0.5 * (t / p.sigma[:, None]).square())
    return (weights * t.square()).sum(1) / weights.sum(1)


def _kind(augmentations: Parameters) -> str:
    return type(augmentations).__name__
