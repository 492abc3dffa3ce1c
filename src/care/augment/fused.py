"""Augmenting small images in one kernel: each view is read, changed and written once. Needs a GPU and Triton.

What `apply` does in some hundred operations, each a pass over all views, is here one program per view that keeps the
view in registers.
"""

import importlib.util

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from care.augment.images import ImageParameters

# A larger view does not fit into the registers of one program.
LARGEST_SIZE = 64
# Shrinking by a factor s reads (2s)² pixels of the image for each of the view.
LARGEST_SOURCE = 96
PIXELS_PER_THREAD = 8

TRITON_INSTALLED = importlib.util.find_spec("triton") is not None


def can_fuse(images: Tensor, p: ImageParameters) -> bool:
    """Whether `fused_augment` can stand in for `apply`: small RGB images on a GPU, and no gradient asked for."""
    small = p.size <= LARGEST_SIZE and max(p.source) <= LARGEST_SOURCE
    plain = images.ndim == 4 and images.shape[1] == 3 and images.dtype in (torch.uint8, torch.float32)
    gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (images, *dict(p._tensors()).values()))
    return TRITON_INSTALLED and images.is_cuda and plain and small and not gradient


def fused_augment(
    images: UInt8[Tensor, "m 3 h w"] | Float[Tensor, "m 3 h w"],
    p: ImageParameters,
    indices: Int[Tensor, " n"] | None = None,
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
    mean: Float[Tensor, " 3"] | None = None,
    std: Float[Tensor, " 3"] | None = None,
) -> Float[Tensor, "n 3 {p.size} {p.size}"]:
    """(a_i(x_j) − mean) / std with j = indices[i], or j = i without `indices`: what `apply` gives for images[indices].

    Computed in float32 and rounded once, to `dtype`. An index outside of `images` gives a view of NaN.
    """
    _check(images, p, indices, mean, std)
    channels_last = memory_format == torch.channels_last
    return _fused_augment(
        images, _columns(p), indices, mean, std, p.size, p.kernel_size, p.threshold, dtype, channels_last
    )


@torch.library.custom_op("care::fused_augment", mutates_args=())
def _fused_augment(
    images: Tensor,
    parameters: list[Tensor],
    indices: Tensor | None,
    mean: Tensor | None,
    std: Tensor | None,
    size: int,
    kernel_size: int,
    threshold: float,
    dtype: torch.dtype,
    channels_last: bool,
) -> Tensor:
    """An operator of PyTorch, so that torch.compile calls the kernel without looking into it."""
    from care.augment.fused_kernel import INTERPRETED, augment_kernel

    if not (images.is_cuda or INTERPRETED):
        raise ValueError(f"fused augmentations need a GPU, images are on {images.device}: use care.augment.apply")
    out = _empty_views(images, parameters, indices, mean, std, size, kernel_size, threshold, dtype, channels_last)
    block = 1 << (size - 1).bit_length()
    with torch.cuda.device_of(images):
        augment_kernel[(len(out),)](
            out,
            images,
            *(None if vector is None else vector.contiguous() for vector in (indices, mean, std)),
            *parameters,
            threshold,
            len(images),
            *images.shape[2:],
            *images.stride(),
            *out.stride()[1:],
            WHITE=255.0 if images.dtype == torch.uint8 else 1.0,
            SIZE=size,
            KERNEL_SIZE=kernel_size,
            BLOCK=block,
            num_warps=min(max(block**2 // (32 * PIXELS_PER_THREAD), 1), 16),
            enable_fp_fusion=True,  # Triton 3.9 warns where the choice is left to it
        )
    return out


@_fused_augment.register_fake
def _empty_views(
    images: Tensor,
    parameters: list[Tensor],
    indices: Tensor | None,
    mean: Tensor | None,
    std: Tensor | None,
    size: int,
    kernel_size: int,
    threshold: float,
    dtype: torch.dtype,
    channels_last: bool,
) -> Tensor:
    """Memory for the views; all that torch.compile needs to know of the operator."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    shape = (len(parameters[0]), 3, size, size)
    return torch.empty(shape, dtype=dtype, device=images.device, memory_format=memory_format)


def _columns(p: ImageParameters) -> list[Tensor]:
    """The tensors of `p` in the order of its fields, which is that of the kernel's arguments."""
    return [(tensor.float() if tensor.is_floating_point() else tensor).contiguous() for _, tensor in p._tensors()]


def _check(images: Tensor, p: ImageParameters, indices: Tensor | None, mean: Tensor | None, std: Tensor | None) -> None:
    if images.ndim != 4 or images.shape[1] != 3 or tuple(images.shape[2:]) != p.source:
        raise ValueError(
            f"augmentations drawn for images [n, 3, {p.source[0]}, {p.source[1]}], got {list(images.shape)}"
        )
    n = len(images if indices is None else indices)
    if n != len(p):
        raise ValueError(f"{n} images asked for but {len(p)} augmentations: draw as many, or repeat what was drawn")
    if p.size > LARGEST_SIZE:
        raise ValueError(f"views of {p.size} px are too large to fuse (at most {LARGEST_SIZE}): use care.augment.apply")
    if (mean is None) != (std is None):
        raise ValueError("mean and std belong together: pass both or neither")
