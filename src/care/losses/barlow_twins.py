"""Barlow Twins: the cross-correlation of the two views should be the identity."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def barlow_twins(z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], redundancy: float = 5e-3) -> Float[Tensor, ""]:
    """Σ_i (1 − C_ii)² + redundancy · Σ_{i≠j} C_ij², with C the cross-correlation of the views' coordinates.

    Embeddings are not normalized to the sphere; each coordinate is standardized over the batch instead.
    """
    check_views(z1, z2)
    C = _standardize(z1).mT @ _standardize(z2) / len(z1)
    diagonal = C.diagonal()
    off_diagonal = C.square().sum() - diagonal.square().sum()
    return (1 - diagonal).square().sum() + redundancy * off_diagonal


def _standardize(z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """BatchNorm without learned parameters: a coordinate that does not vary becomes 0, not NaN."""
    variance, mean = torch.var_mean(z, dim=0, correction=0)
    return (z - mean) * (variance + 1e-5).rsqrt()
