"""The steering loss: the augmentation parameters prescribe the rotation, where the equivariance loss accepts any."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean, exponential
from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def steering(
    z1: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    theta1: Float[Tensor, "b1 k"],
    theta2: Float[Tensor, "b2 k"],
    generators: Float[Tensor, "k m m"],
) -> Float[Tensor, ""]:
    """E_x ‖R(θ) R(θ')ᵀ f(a' x) − f(a x)‖² with R(θ) = exp(Σ_k θ_k A_k), for z1 = f(a x) and z2 = f(a' x).

    θ and θ' are the coordinates of a and a' (`care.augment.coordinates`); n / b consecutive images share a row. The
    skew-symmetric `generators` A_k rotate the first m coordinates of an embedding; the others should be invariant.

    Rotations keep lengths, so the loss equals E ‖R(θ)ᵀ z1 − R(θ')ᵀ z2‖²: both views should agree once canonicalized,
    that is with their rotations undone.
    """
    check_views(z1, z2)
    canonical = [_canonicalized(z, theta, generators) for z, theta in ((z1, theta1), (z2, theta2))]
    return (canonical[0] - canonical[1]).square().sum(1).mean()


def _canonicalized(
    z: Float[Tensor, "n d"], theta: Float[Tensor, "b k"], generators: Float[Tensor, "k m m"]
) -> Float[Tensor, "n d"]:
    """R(θ)ᵀ z for the n / b consecutive rows of every θ: one batched product of rows with R(θ)."""
    if len(z) % len(theta):
        raise ValueError(f"{len(z)} embeddings cannot be divided evenly among {len(theta)} augmentations")
    R = exponential(torch.einsum("bk,kij->bij", theta.to(generators), generators))
    first, rest = Euclidean().embed(z).split([R.shape[-1], z.shape[1] - R.shape[-1]], dim=1)
    return torch.cat([(first.unflatten(0, (len(R), -1)) @ R).flatten(0, 1), rest], dim=1)
