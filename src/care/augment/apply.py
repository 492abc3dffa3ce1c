"""Applying drawn augmentations. Nothing here is random."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from care.augment.blur import gaussian_blur
from care.augment.color import grayscale, jitter
from care.augment.crop import crop_and_resize
from care.augment.fused import can_fuse, fused_augment
from care.augment.images import ImageParameters
from care.augment.points import PointParameters, augment_points
from care.augment.rows import change_rows
from care.augment.values import Parameters


def apply(inputs: Tensor, augmentation: Parameters | Sequence[Parameters]) -> Tensor:
    """a_i(x_i) for every input x_i and augmentation a_i; a composition (`compose`) is applied step by step.

    Images [n, 3, H, W], uint8 or floating point in [0, 1], give floating-point images [n, 3, size, size] in [0, 1].
    Point clouds [n, p, 3] give point clouds. The values equal torchvision's v2 functions with the same parameters.
    RGB images on a GPU go through fused kernels (`fused_augment`), everything else through `augment_images`.
    """
    if not isinstance(augmentation, Parameters):
        for step in augmentation:
            inputs = apply(inputs, step)
        return inputs
    _check(inputs, augmentation)
    if isinstance(augmentation, PointParameters):
        return augment_points(inputs, augmentation)
    if isinstance(augmentation, ImageParameters):
        return _fused(inputs, augmentation) if can_fuse(inputs, augmentation) else augment_images(inputs, augmentation)
    raise TypeError(f"cannot apply {type(augmentation).__name__}")


def compose(*augmentations: Parameters | Sequence[Parameters]) -> tuple[Parameters, ...]:
    """compose(c, b, a) = c ∘ b ∘ a: first a, then b, then c, written as in the paper."""
    steps: list[Parameters] = []
    for augmentation in reversed(augmentations):
        steps.extend([augmentation] if isinstance(augmentation, Parameters) else augmentation)
    return tuple(steps)


def augment_images(
    images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"], p: ImageParameters
) -> Float[Tensor, "n 3 {p.size} {p.size}"]:
    """Crop, flip, color, gray, blur, solarize, in this order. The memory format is that of the input."""
    x = images.float() / 255 if images.dtype == torch.uint8 else images
    x = crop_and_resize(x, p.top, p.left, p.height, p.width, p.flip, p.size)
    x = jitter(x, p.order, p.brightness, p.contrast, p.saturation, p.hue)
    x = change_rows(x, p.gray, lambda images, _: grayscale(images))
    if p.kernel_size > 1:
        x = change_rows(x, p.blur, lambda images, i: gaussian_blur(images, p.sigma[i], p.kernel_size))
    x = change_rows(x, p.solarize, lambda images, _: torch.where(images >= p.threshold, 1 - images, images))
    if images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous():
        x = x.contiguous(memory_format=torch.channels_last)
    return x


def _fused(images: Tensor, p: ImageParameters) -> Tensor:
    """`augment_images` by fused kernels; the memory format is that of the input, too."""
    channels_last = images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    return fused_augment(images, p, memory_format)


def _check(inputs: Tensor, p: Parameters) -> None:
    if len(inputs) != len(p):
        raise ValueError(f"{len(inputs)} inputs but {len(p)} augmentations: draw as many, or repeat what was drawn")
    if isinstance(p, ImageParameters):
        if inputs.ndim != 4 or inputs.shape[1] != 3:
            raise ValueError(f"images must be [n, 3, height, width], got {tuple(inputs.shape)}")
        if tuple(inputs.shape[2:]) != p.input_shape:
            raise ValueError(f"augmentations drawn for {p.input_shape} pixels, images of {tuple(inputs.shape[2:])}")
        if inputs.dtype != torch.uint8 and not inputs.is_floating_point():
            raise ValueError(f"images must be uint8 or floating point in [0, 1], got {inputs.dtype}")
    elif isinstance(p, PointParameters) and tuple(inputs.shape[1:]) != (*p.input_shape, 3):
        raise ValueError(f"augmentations drawn for clouds of {p.input_shape[0]} points, got {tuple(inputs.shape)}")
