"""Whitening: a linear map, fitted without labels, after which no direction of the features dominates their distances.

What varies most in features, such as the hue that `--keep` puts there, then counts no more than what varies little.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Whitening:
    """x ↦ W (x − μ)."""

    mean: Float64[Tensor, " d"]
    W: Float64[Tensor, "d d"]

    def __call__(self, features: Float[Tensor, "n d"]) -> Float64[Tensor, "n d"]:
        """The whitened features: of mean 0 over the rows that were fitted, and almost of covariance 1."""
        return (features.double() - self.mean) @ self.W


@torch.no_grad()
def whitening(features: Float[Tensor, "n d"]) -> Whitening:
    """W = (C + ε (tr C / d) I)^(−1/2), with the mean μ and the covariance C of the rows, and ε = √(d/n).

    ε is by how much the eigenvalues of a covariance estimated from n rows are off (Marchenko and Pastur, 1967):
    directions that vary less are not blown up.
    """
    if features.ndim != 2 or len(features) == 0 or not torch.isfinite(features).all():
        raise ValueError(f"features must be finite rows [n, d] with n ≥ 1, got {list(features.shape)}")
    n, d = features.shape
    mean = features.double().mean(0)
    X = features.double() - mean
    L, V = torch.linalg.eigh(X.mT @ X / n)
    ridge = (d / n) ** 0.5 * L.mean()
    scale = (L + ridge).rsqrt() if ridge > 0 else torch.ones_like(L)  # features that do not vary stay 0
    return Whitening(mean, V * scale @ V.mT)
