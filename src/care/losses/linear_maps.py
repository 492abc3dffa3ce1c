"""Learned linear maps: an augmentation acts on embeddings as a matrix that depends on its parameters."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def mapped(z: Float[Tensor, "n d"], omega: Float[Tensor, "n k"], maps: Float[Tensor, "k d d"]) -> Float[Tensor, "n d"]:
    """M(ω) z = z + Σ_k ω_k B_k z for every row z with its own ω; the matrices B_k (`maps`) are unconstrained."""
    return z + torch.einsum("nk,nki->ni", omega, torch.einsum("kij,nj->nki", maps, z))


@full_precision
def linear_map(predicted: Float[Tensor, "n d"], target: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """E_x ‖M(ω) f(x) − f(a x)‖², after normalizing both points to the sphere."""
    check_views(predicted, target)
    return (Euclidean().embed(predicted) - Euclidean().embed(target)).square().sum(1).mean()
