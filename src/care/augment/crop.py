"""Cropping and resizing as a product with one sparse matrix per axis."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def crop_and_resize(
    images: Float[Tensor, "n c h w"],
    top: Int[Tensor, " n"],
    left: Int[Tensor, " n"],
    height: Int[Tensor, " n"],
    width: Int[Tensor, " n"],
    flip: Bool[Tensor, " n"],
    size: int,
) -> Float[Tensor, "n c size size"]:
    """Y · image · Xᵀ: the box, resized to `size` × `size` with antialiasing, and mirrored where `flip`."""
    Y = resize_matrix(top, height, size, images.shape[-2])
    X = resize_matrix(left, width, size, images.shape[-1])
    X = torch.where(flip[:, None, None], X.flip(1), X)
    return Y[:, None].to(images.dtype) @ (images @ X.mT[:, None].to(images.dtype))


def resize_matrix(
    start: Int[Tensor, " n"], length: Int[Tensor, " n"], size: int, source: int
) -> Float[Tensor, "n size source"]:
    """Row i holds the weights of the source pixels in output pixel i, for the stretch [start, start + length).

    Triangle weights 1 − |j + ½ − c_i| / r around c_i = start + (i + ½) length/size, with radius r = max(1, length/size)
    (the antialiasing), cut off at the ends of the stretch and scaled to sum 1.
    """
    i = torch.arange(size, device=start.device)[None, :, None]
    j = torch.arange(source, device=start.device)[None, None, :]
    start, length = start[:, None, None], length[:, None, None]
    ratio = length / size
    center = start + (i + 0.5) * ratio
    weights = (1 - (j + 0.5 - center).abs() / ratio.clamp_min(1)).clamp_min(0)
    weights = weights * ((j >= start) & (j < start + length))
    return weights / weights.sum(-1, keepdim=True)
