"""Learned linear maps: an augmentation acts on embeddings as a matrix that depends on its parameters."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def mapped(z: Float[Tensor, "n d"], omega: Float[Tensor, "n k"], maps: Float[Tensor, "k d d"]) -> Float[Tensor, "n d"]:
    """M(ω) z = z + Σ_k ω_k B_k z, each z by the ω of its row: linear in z and in ω, and bound to be nothing else."""
    return z + torch.einsum("nk,nki->ni", omega, torch.einsum("kij,nj->nki", maps, z))


@full_precision
def linear_map(predicted: Float[Tensor, "n d"], target: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """E_x ‖M(ω) f(x) − f(a x)‖² of points of the sphere, where both are put first."""
    check_views(predicted, target)
    return (Euclidean().embed(predicted) - Euclidean().embed(target)).square().sum(1).mean()
