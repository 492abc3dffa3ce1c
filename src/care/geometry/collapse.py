"""Measures of collapse: how many directions the embeddings use, and how far apart they are."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.forms import Euclidean
from care.geometry.wahba import checked_points

# The number of rows that the authors of RankMe use; more rows hardly change the rank.
ROWS = 25_600
EPSILON = 1e-7  # as in RankMe
PAIRS_AT_ONCE = 2**24

SPHERE = Euclidean()


def rankme(Z: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """RankMe = exp(−Σ p_k log p_k) with p_k = σ_k / Σσ + ε, of the singular values σ of Z (Garrido et al. 2023).

    The rows of Z are the outputs of a network, neither centered nor normalized; at most 25,600 are used, evenly spaced,
    since they may be sorted by class. RankMe lies between 1 = all outputs are multiples of one vector, and min(n, d).
    It is 0 if all outputs are 0.
    """
    Z = _some(Z)
    Z = checked_points(Z, Z)[0]
    sigma = _singular_values(Z.double())
    p = sigma / sigma.sum() + EPSILON
    return torch.where(sigma.sum() > 0, torch.special.entr(p).sum().exp(), 0).to(Z.dtype)


def spectrum(F: Float[Tensor, "n d"]) -> Float[Tensor, " r"]:
    """The singular values of the centered embeddings, divided by √n; all 0 if the embeddings vary only by rounding."""
    F = checked_points(F, F)[0]
    centered = F.double() - F.double().mean(0)
    sigma = _singular_values(centered)
    rounding = torch.finfo(F.dtype).eps * F.double().norm()
    return (torch.where(sigma.norm() > rounding, sigma, 0) / len(F) ** 0.5).to(F.dtype)


def effective_rank(singular_values: Float[Tensor, " r"]) -> Float[Tensor, ""]:
    """exp(−Σ p_k log p_k) with p_k = σ_k² / Σσ², of the `spectrum`: how many directions carry the variance.

    It is the effective rank of the covariance matrix, whose eigenvalues are σ² (Roy and Vetterli 2007). Unlike RankMe,
    it ignores the mean of the embeddings and gives small σ little weight. 1 = a single direction, 0 = no variance.
    """
    variance = singular_values.double().square()
    p = variance / variance.sum()
    rank = torch.where(variance.sum() > 0, torch.special.entr(p).sum().exp(), 0)
    return rank.to(singular_values.dtype)


def alignment(F: Float[Tensor, "*#batch n d"], F_a: Float[Tensor, "*#batch n d"]) -> Float[Tensor, "*#batch"]:
    """E ‖f(x) − f(a(x))‖² on the unit sphere (Wang and Isola 2020): 0 for an invariant or collapsed encoder."""
    F, F_a = checked_points(F, F_a)
    return SPHERE.squared_distance(SPHERE.embed(F), SPHERE.embed(F_a)).mean(-1)


def gaussian_uniformity(F: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """log E_{i≠j} exp(−2 ‖f(x_i) − f(x_j)‖²) on the unit sphere (Wang and Isola 2020).

    0 = collapsed, about −4 = uniform. At most 25,600 embeddings are used, evenly spaced.
    """
    F = _some(F)
    z = SPHERE.embed(checked_points(F, F, at_least=2)[0])
    n, rows = len(z), torch.arange(len(z), device=z.device)
    sums = []
    for i in rows.split(max(1, PAIRS_AT_ONCE // n)):
        # −2 ‖x − y‖², which rounding must not make positive; outputs of 0 stay 0, and are one point.
        lengths = z.square().sum(1)
        potential = (4 * (z[i] @ z.mT) - 2 * (lengths[i, None] + lengths)).clamp_max(0)
        sums.append(potential.masked_fill(i[:, None] == rows, -torch.inf).logsumexp(1))
    return (torch.cat(sums).logsumexp(0) - math.log(n * (n - 1))).clamp_max(0)


def _some(X: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
    n = len(X)
    return X if n <= ROWS else X[torch.arange(ROWS, device=X.device) * n // ROWS]


def _singular_values(X: Float[Tensor, "n d"]) -> Float[Tensor, " r"]:
    """In descending order, from the smaller of XᵀX and XXᵀ: in float64, accurate to 10⁻⁸ of the largest."""
    gram = X.mT @ X if X.shape[0] > X.shape[1] else X @ X.mT
    return torch.linalg.eigvalsh(gram).clamp_min(0).sqrt().flip(-1)
