"""Resize decoded pictures to squares as Pillow does, many at a time, on their device."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

# How to set a square upright, by EXIF orientation: whether to transpose it, and the dimensions to flip then.
UPRIGHT: dict[int, tuple[bool, tuple[int, ...]]] = {
    2: (False, (-1,)),
    3: (False, (-1, -2)),
    4: (False, (-2,)),
    5: (True, ()),
    6: (True, (-1,)),
    7: (True, (-1, -2)),
    8: (True, (-2,)),
}


def squares(
    pictures: Sequence[UInt8[Tensor, "3 _ _"]], boxes: Float64[Tensor, "n 4"], side: int
) -> UInt8[Tensor, "n 3 {side} {side}"]:
    """The box (left, top, right, bottom) of each picture as a square: Y = A X Bᵀ, for all pictures at once.

    The rows of A and B are the weights of Pillow's bilinear filter with antialiasing.
    """
    device = pictures[0].device
    sizes = torch.tensor([picture.shape[1:] for picture in pictures], dtype=torch.float64)
    height, width = (int(most) for most in sizes.amax(0))
    # float16 holds 0 … 255 with a precision of an eighth.
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    X = torch.zeros((len(pictures), 3, height, width), dtype=dtype, device=device)
    for padded, picture in zip(X, pictures, strict=True):
        padded[:, : picture.shape[1], : picture.shape[2]] = picture
    left, top, right, bottom = boxes.to(device).unbind(1)
    A = _weights(top, bottom, sizes[:, 0].to(device), side, height).to(dtype)
    B = _weights(left, right, sizes[:, 1].to(device), side, width).to(dtype)
    Y = A[:, None] @ (X @ B[:, None].mT)
    return Y.float().round_().clamp_(0, 255).to(torch.uint8)


def _weights(
    start: Float64[Tensor, " n"], end: Float64[Tensor, " n"], size: Float64[Tensor, " n"], side: int, most: int
) -> Float[Tensor, "n {side} {most}"]:
    """w_ij ∝ max(0, 1 − |j + ½ − c_i| / s) for the pixels j < size, with c_i the center of the new pixel i.

    A new pixel is (end − start) / side old pixels wide. s is this width, or 1 if the picture is enlarged.
    """
    scale = (end - start)[:, None] / side
    centers = start[:, None] + (torch.arange(side, dtype=torch.float64, device=start.device) + 0.5) * scale
    old = torch.arange(most, dtype=torch.float32, device=start.device) + 0.5
    distance = (old - centers.float()[:, :, None]).abs()
    weights = (1 - distance / scale.float().clamp_min(1)[:, :, None]).clamp_min(0) * (old < size[:, None, None])
    return weights / weights.sum(2, keepdim=True)


def upright(square: UInt8[Tensor, "3 s s"], orientation: int) -> UInt8[Tensor, "3 s s"]:
    """The square with the EXIF orientation applied."""
    transposed, flipped = UPRIGHT.get(orientation, (False, ()))
    return (square.mT if transposed else square).flip(flipped)
