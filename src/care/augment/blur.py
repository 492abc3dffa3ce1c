"""Gaussian blur with one width per image, one axis after the other."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def gaussian_blur(
    images: Float[Tensor, "n c h w"], sigma: Float[Tensor, " n"], kernel_size: int
) -> Float[Tensor, "n c h w"]:
    """out_i = Σ_t g(t) in_{i + t} along both axes, with reflection at the borders.

    g(t) = exp(−t²/2σ²) for |t| ≤ (kernel_size − 1)/2, scaled to sum 1.
    """
    radius = kernel_size // 2
    t = torch.arange(-radius, radius + 1, device=sigma.device)
    weights = torch.exp(-0.5 * (t / sigma[:, None]).square())
    weights = (weights / weights.sum(1, keepdim=True)).to(images.dtype)
    padded = F.pad(images, (radius,) * 4, mode="reflect")
    return _weighted(_weighted(padded, weights, dim=2), weights, dim=3)


def _weighted(images: Tensor, weights: Float[Tensor, "n taps"], dim: int) -> Tensor:
    """Σ_t weights[:, t] · images shifted by t along `dim`, where images reach far enough."""
    size = images.shape[dim] - weights.shape[1] + 1
    total = images.narrow(dim, 0, size) * weights[:, 0, None, None, None]
    for t in range(1, weights.shape[1]):
        total = torch.addcmul(total, images.narrow(dim, t, size), weights[:, t, None, None, None])
    return total
