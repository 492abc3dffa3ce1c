"""How well the best rotation and the best linear map fit an augmentation on all images, estimated from n of them.

A rotation that was fitted to n points fits these too well and others too badly, by about d/n each. Both errors come
from the noise in C = Σ f(a(x_i)) f(x_i)ᵀ / n. Adding the same amount of noise again shows how large the error is, so
that it can be subtracted: simulation and extrapolation, SIMEX (Cook and Stefanski 1994).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.crossfit import scrambled
from care.geometry.forms import Group
from care.geometry.kabsch import LARGE, kabsch
from care.geometry.source import Source

# N^p is assumed to grow in proportion to the noise: see `best_inner_products`.
POWER = 1.5
# Coordinates with added noise, over all draws: one draw is enough for a large d, which averages by itself.
NOISY_COORDINATES = 1024
NUMBERS_AT_ONCE = 1 << 16  # for several draws in one product, as long as they stay in the cache


class InnerProducts(NamedTuple):
    """max_M E⟨M f(x), f(a(x))⟩ over rotations M, and over linear maps M that keep E‖f(x)‖².

    `fitted` is the inner product of the rotation fitted to the points, on the same points: it determines the paper's
    W_f.
    """

    rotation: Float[Tensor, ""]
    linear: Float[Tensor, ""]
    fitted: Float[Tensor, ""]


def best_inner_products(source: Source, F_a: Float[Tensor, "n d"], group: Group = "SO") -> InnerProducts:
    """Estimate the inner products in the population from the rows of `source` and F_a, in the span of `source`.

    The inner product of the best rotation is the nuclear norm ‖E C‖_*. With N₁ = ‖C‖_* and N₂ the norm of C with the
    same amount of noise added again, the estimate is (2 N₁^p − N₂^p)^(1/p), as if N^p grew in proportion to the noise.
    This holds with p = 1 for weak noise, and approximately with p = 2 for similar singular values below the noise;
    p = 3/2 lies between. The estimate is capped at the inner product of the best linear map M, √(E‖f(x)‖² E‖M f(x)‖²),
    which least squares gives without bias: E‖M f(x)‖² = E‖f(a(x))‖² − RSS/(n − r), r the rank of F.
    """
    Y, Y_a = source.coordinates(source.F).double(), source.coordinates(F_a).double()
    n = len(Y)
    noise = (Y_a - Y @ source.least_squares(Y_a)) * (n / max(1, n - source.rank)) ** 0.5
    C, W = Y_a.mT @ Y / n, _noises(noise, Y)
    once = nuclear_norm(C, group == "SO")
    again = torch.stack([nuclear_norm(C + sign * W, group == "SO").mean() for sign in (1, -1)]).mean()
    rotation = (2 * once**POWER - again**POWER).clamp_min(0) ** (1 / POWER)
    explained = (Y_a.square().sum() - noise.square().sum()).clamp_min(0)
    linear = (Y.square().sum() * explained).sqrt() / n
    return InnerProducts(torch.minimum(rotation, linear), linear, once)


def squared_wahba(F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """W_f² = ‖F‖² + ‖F_a‖² − 2 ‖F_aᵀ F‖_*, without computing the rotation, which would cost several times as much.

    For n < d, it is computed from the n × n triangles of Fᵀ = Q T and F_aᵀ = Q_a T_a: F_aᵀ F = Q_a (T_a Tᵀ) Qᵀ. The
    best orthogonal matrix is then a rotation, since some direction is free to be reflected.
    """
    X, X_a = F.double(), F_a.double()
    n, d = X.shape
    if n < d:
        T, T_a = (torch.linalg.qr(points.mT, mode="r").R for points in (X, X_a))
        fitted = nuclear_norm(T_a @ T.mT, special=False)
    else:
        fitted = nuclear_norm(X_a.mT @ X, special=True)
    return (X.square().sum() + X_a.square().sum() - 2 * fitted).clamp_min(0).to(F.dtype)


def nuclear_norm(C: Float[Tensor, "*batch d d"], special: bool) -> Float[Tensor, "*batch"]:
    """max_R tr(Rᵀ C) = Σ σ_k over O(d); over SO(d), if `special`, the last σ is subtracted where det C < 0."""
    if C.is_cuda and C.shape[-1] >= LARGE:  # where products are faster than singular values
        return (kabsch(C, special) * C).sum((-2, -1))
    # A GPU computes singular values one matrix at a time, but eigenvalues for the whole batch at once.
    values = torch.linalg.eigvalsh(C.mT @ C).clamp_min(0).sqrt() if C.is_cuda else torch.linalg.svdvals(C)
    reflected = special & (torch.linalg.slogdet(C).sign < 0)
    return values.sum(-1) - 2 * reflected * values.amin(-1)


def _noises(noise: Float[Tensor, "n d"], Y: Float[Tensor, "n d"]) -> Float[Tensor, "draws d d"]:
    """W = Σ ±ε_i f(x_i)ᵀ / n for several draws of signs: as much noise as C has. C + W and C − W are used together, so
    that terms linear in W cancel."""
    n, d = Y.shape
    draws = max(1, NOISY_COORDINATES // d)
    signs = 2 * (scrambled(torch.arange(draws * n, device=Y.device)) & 1).to(Y).view(draws, n) - 1
    at_once = max(1, NUMBERS_AT_ONCE // (n * d))
    return torch.cat([(noise * some[:, :, None]).mT @ Y / n for some in signs.split(at_once)])
