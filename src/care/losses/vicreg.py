"""VICReg: variance, invariance and covariance regularization."""

from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def vicreg(
    z1: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
) -> Float[Tensor, ""]:
    """invariance · mean (z1 − z2)² + variance · (V(z1) + V(z2))/2 + covariance · (C(z1) + C(z2)).

    V(z) = E_j max(0, 1 − √(Var z_j + 1e-4)) over coordinates j, and C(z) = Σ_{i≠j} Cov(z)_ij² / d. Variances and
    covariances are the unbiased ones. Embeddings are not normalized to the sphere: their lengths matter.
    """
    check_views(z1, z2)
    distance = (z1 - z2).square().mean()
    spread = (variance_hinge(z1) + variance_hinge(z2)) / 2
    correlation = off_diagonal_covariance(z1) + off_diagonal_covariance(z2)
    return invariance * distance + variance * spread + covariance * correlation


@full_precision
def variance_hinge(z: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """V(z) = E_j max(0, 1 − √(Var z_j + 1e-4)) over coordinates j."""
    return (1 - (z.var(dim=0) + 1e-4).sqrt()).relu().mean()


@full_precision
def off_diagonal_covariance(z: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """C(z) = Σ_{i≠j} Cov(z)_ij² / d."""
    centred = z - z.mean(0)
    C = centred.mT @ centred / (len(z) - 1)
    return (C.square().sum() - C.diagonal().square().sum()) / z.shape[1]
