"""Augment images in one fused kernel, or in four for large views. Needs a GPU and Triton.

Unfused, `apply` takes some hundred operations, each a pass over all views. Here, one program per view keeps the view in
registers: it is read, changed and written once. Large views are made in strips, and pass through memory where a step
needs more than one strip.
"""

import importlib.util
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from care.augment.images import ImageParameters

# A larger view does not fit into the registers of one program, and is made in strips.
LARGEST_WHOLE = 64
LARGEST_SIZE = 512
# Shrinking by a factor s reads (2s)² pixels of the image per pixel of the view.
LARGEST_SHRINK = 3
PIXELS_PER_THREAD, PIXELS_OF_A_STRIP = 8, 1024

ROUNDING: dict[str, Any] = {"enable_fp_fusion": True}  # explicit, because Triton 3.9 warns otherwise

TRITON_INSTALLED = importlib.util.find_spec("triton") is not None


def can_fuse(images: Tensor, p: ImageParameters) -> bool:
    """Whether `fused_augment` can replace `apply`: RGB images on a GPU, not much larger than their views, and no
    gradient required."""
    small = p.size <= LARGEST_SIZE and max(p.input_shape) <= LARGEST_SHRINK * max(p.size, 32)
    plain = images.ndim == 4 and images.shape[1] == 3 and images.dtype in (torch.uint8, torch.float32)
    gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (images, *dict(p._tensors()).values()))
    return TRITON_INSTALLED and images.is_cuda and plain and small and not gradient


def fused_augment(
    images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"],
    p: ImageParameters,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Float[Tensor, "n 3 {p.size} {p.size}"]:
    """a_i(x_i), what `apply` gives, in float32."""
    _check(images, p)
    channels_last = memory_format == torch.channels_last
    return _fused_augment(images, _columns(p), p.size, p.kernel_size, p.threshold, channels_last)


@torch.library.custom_op("care::fused_augment", mutates_args=())
def _fused_augment(
    images: Tensor, parameters: list[Tensor], size: int, kernel_size: int, threshold: float, channels_last: bool
) -> Tensor:
    """An operator of PyTorch, so that torch.compile calls the kernels without looking into them."""
    from care.augment.fused_whole import INTERPRETED

    if not (images.is_cuda or INTERPRETED):
        raise ValueError(f"fused augmentations need a GPU, images are on {images.device}: use care.augment.apply")
    out = _empty_views(images, parameters, size, kernel_size, threshold, channels_last)
    make = _make_whole if size <= LARGEST_WHOLE else _make_strips
    with torch.cuda.device_of(images):
        make(out, images, parameters, kernel_size, threshold)
    return out


def _make_whole(out: Tensor, images: Tensor, parameters: list[Tensor], kernel_size: int, threshold: float) -> None:
    from care.augment.fused_whole import augment_kernel

    size = out.shape[-1]
    block = 1 << (size - 1).bit_length()
    augment_kernel[(len(out),)](
        out, images, *parameters, threshold, *images.shape[2:], *images.stride(), *out.stride()[1:],
        WHITE=_white(images), SIZE=size, KERNEL_SIZE=kernel_size, BLOCK=block,
        num_warps=min(max(block**2 // (32 * PIXELS_PER_THREAD), 1), 16), **ROUNDING,
    )  # fmt: skip


def _make_strips(out: Tensor, images: Tensor, parameters: list[Tensor], kernel_size: int, threshold: float) -> None:
    from care.augment import fused_strips as kernels

    (top, left, height, width, flip, order, brightness, contrast, saturation, hue, gray, blur, sigma, solarize) = (
        parameters
    )
    size = out.shape[-1]
    block = 1 << (size - 1).bit_length()
    rows = PIXELS_OF_A_STRIP // block
    strips = -(-size // rows)
    sizes: dict[str, Any] = {"SIZE": size, "ROWS": rows, "BLOCK": block,
                             "num_warps": PIXELS_OF_A_STRIP // (32 * PIXELS_PER_THREAD), **ROUNDING}  # fmt: skip
    view = torch.empty(out.shape, dtype=torch.float32, device=out.device)
    sums = view.new_empty(len(out), strips)
    grid, of_channels = (len(out), strips), (len(out), strips, 3)
    kernels.resize_kernel[grid](
        view, sums, images, top, left, height, width, flip, order, brightness, saturation, hue,
        *images.shape[2:], *images.stride(), WHITE=_white(images), **sizes,
    )  # fmt: skip
    kernels.color_kernel[grid](
        out, view, sums, order, brightness, contrast, saturation, hue, gray, blur, solarize, threshold,
        *out.stride()[1:], STRIPS=1 << (strips - 1).bit_length(), **sizes,
    )  # fmt: skip
    blurred = torch.empty_like(view)
    kernels.blur_columns_kernel[of_channels](blurred, view, blur, sigma, KERNEL_SIZE=kernel_size, **sizes)
    kernels.blur_rows_kernel[of_channels](
        out, blurred, blur, sigma, solarize, threshold, *out.stride()[1:], KERNEL_SIZE=kernel_size, **sizes
    )


def _white(images: Tensor) -> float:
    return 255.0 if images.dtype == torch.uint8 else 1.0


@_fused_augment.register_fake
def _empty_views(
    images: Tensor, parameters: list[Tensor], size: int, kernel_size: int, threshold: float, channels_last: bool
) -> Tensor:
    """Allocate the views; this is all that torch.compile needs to know about the operator."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    shape = (len(parameters[0]), 3, size, size)
    return torch.empty(shape, dtype=torch.float32, device=images.device, memory_format=memory_format)


def _columns(p: ImageParameters) -> list[Tensor]:
    """The tensors of `p` in the order of its fields, which is that of the kernel's arguments."""
    return [(tensor.float() if tensor.is_floating_point() else tensor).contiguous() for _, tensor in p._tensors()]


def _check(images: Tensor, p: ImageParameters) -> None:
    if images.ndim != 4 or images.shape[1] != 3 or tuple(images.shape[2:]) != p.input_shape:
        raise ValueError(
            f"augmentations drawn for images [n, 3, {p.input_shape[0]}, {p.input_shape[1]}], got {list(images.shape)}"
        )
    if len(images) != len(p):
        raise ValueError(f"{len(images)} images but {len(p)} augmentations: draw as many, or repeat what was drawn")
    if p.size > LARGEST_SIZE:
        raise ValueError(f"views of {p.size} px are too large to fuse (at most {LARGEST_SIZE}): use care.augment.apply")
