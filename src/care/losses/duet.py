"""DUET's loss: features arranged in bins encode where an augmentation parameter lies in its range."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def jensen_shannon(p: Float[Tensor, "n g"], q: Float[Tensor, "n g"]) -> Float[Tensor, ""]:
    """E_x [KL(p ‖ m) + KL(q ‖ m)]/2, m = (p + q)/2, for distributions over g bins: 0 = equal, log 2 = disjoint."""
    check_views(p, q)
    p, q = (d.clamp_min(torch.finfo(d.dtype).tiny) for d in (p, q))  # the slope of d log d at 0 is not finite
    m = (p + q) / 2
    divergences = torch.stack([torch.special.xlogy(d, d) - torch.special.xlogy(d, m) for d in (p, q)])
    return divergences.sum(2).mean()


def gaussian_bins(u: Float[Tensor, " n"], bins: int, sigma: float = 0.2) -> Float[Tensor, "n {bins}"]:
    """q_g ∝ exp(−(c_g − u)²/2σ²): a Gaussian around u in [0, 1], at the centers c_g of the bins."""
    return (-(_centers(bins, u) - u[:, None]).square() / (2 * sigma**2)).softmax(1)


def von_mises_bins(u: Float[Tensor, " n"], bins: int, kappa: float = 3.0) -> Float[Tensor, "n {bins}"]:
    """q_g ∝ exp(κ cos 2π(c_g − u)): a von Mises distribution around u, where u = 0 and u = 1 are the same."""
    return (kappa * (2 * math.pi * (_centers(bins, u) - u[:, None])).cos()).softmax(1)


def _centers(bins: int, like: Tensor) -> Float[Tensor, " {bins}"]:
    return (torch.arange(bins, device=like.device, dtype=like.dtype) + 0.5) / bins
