"""Gaussian blur with one width per image, as a product with one matrix per axis."""

import torch
from jaxtyping import Float
from torch import Tensor


def gaussian_blur(
    images: Float[Tensor, "n c size size"], sigma: Float[Tensor, " n"], kernel_size: int
) -> Float[Tensor, "n c size size"]:
    """G · image · Gᵀ: the square images blurred on `kernel_size` pixels, with reflection at the borders."""
    G = blur_matrix(sigma, images.shape[-1], kernel_size)[:, None].to(images.dtype)
    return G @ (images @ G.mT)


def blur_matrix(sigma: Float[Tensor, " n"], size: int, kernel_size: int) -> Float[Tensor, "n size size"]:
    """G_ij = g(i − j) + g(i + j) [j > 0] + g(i + j − 2(size − 1)) [j < size − 1], each row scaled to sum 1.

    g(t) = exp(−t²/2σ²) for |t| ≤ (kernel_size − 1)/2, else 0. The second and third term are pixel j seen in the mirror
    of the near and the far border.
    """
    radius = kernel_size // 2
    i = torch.arange(size, device=sigma.device)[None, :, None]
    j = torch.arange(size, device=sigma.device)[None, None, :]

    def g(t: Tensor) -> Tensor:
        return torch.exp(-0.5 * (t / sigma[:, None, None]).square()) * (t.abs() <= radius)

    weights = g(i - j) + g(i + j) * (j > 0) + g(i + j - 2 * (size - 1)) * (j < size - 1)
    return weights / weights.sum(-1, keepdim=True)
