"""How well the best rotation and the best linear map fit an augmentation on all images, estimated from n of them.

A rotation that was fitted to n points fits these too well and others too badly, by about d/n each. Both errors come
from the noise in C = Σ f(a(x_i)) f(x_i)ᵀ / n. Adding the same amount of noise again shows how large the error is, so
that it can be subtracted: simulation and extrapolation, SIMEX (Cook and Stefanski 1994).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.crossfit import halves, scrambled
from care.geometry.forms import Group
from care.geometry.kabsch import LARGE, kabsch
from care.geometry.source import Source

# Coordinates with added noise, over all draws: one draw is enough for a large d, which averages by itself.
NOISY_COORDINATES = 1024
NUMBERS_AT_ONCE = 1 << 16  # for several draws in one product, as long as they stay in the cache
# Rows from which `_of_chance`, a small part of the result, is computed: at least this many, and so many per dimension.
ROWS, ROWS_PER_DIMENSION = 2048, 4


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

    The inner product of the best orthogonal map is the nuclear norm ‖E C‖_* = Σ_k σ_k. Noise W adds about the same to
    every σ_k², so that as much noise again shows what to subtract: σ̂_k² = 2 σ_k(C)² − E_W σ_k(C + W)². This is exact
    for a σ_k far above the noise, and 0 on average where there is only noise: there, σ̂_k keeps the sign of σ̂_k², so
    that chance cancels in the sum. `_of_chance` is subtracted, and in SO(d) `_reflection`. The result is capped at the
    inner product of the best linear map M, √(E‖f(x)‖² E‖M f(x)‖²), which least squares gives without bias: E‖M f(x)‖² =
    E‖f(a(x))‖² − RSS/(n − r), r the rank of F.
    """
    Y, Y_a = source.coordinates(source.F).double(), source.coordinates(F_a).double()
    n = len(Y)
    noise = (Y_a - Y @ source.least_squares(Y_a)) * (n / max(1, n - source.rank)) ** 0.5
    C, W = Y_a.mT @ Y / n, _noises(noise, Y)
    once = _singular_values(C)
    again = torch.stack([_singular_values(C + sign * W).square().mean(0) for sign in (1, -1)]).mean(0)
    squares = 2 * once.square() - again
    rotation = (squares.sign() * squares.abs().sqrt()).sum() - _of_chance(C, Y, Y_a, noise)
    reflected = group == "SO" and bool(torch.linalg.slogdet(C).sign < 0)
    if reflected:
        rotation = rotation - _reflection(Y, Y_a)
    explained = (Y_a.square().sum() - noise.square().sum()).clamp_min(0)
    linear = (Y.square().sum() * explained).sqrt() / n
    return InnerProducts(rotation.clamp(min=0, max=linear), linear, once.sum() - 2 * reflected * once[-1])


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
    values = _singular_values(C)
    reflected = special & (torch.linalg.slogdet(C).sign < 0)
    return values.sum(-1) - 2 * reflected * values.amin(-1)


def _singular_values(C: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d"]:
    """In descending order. A GPU computes them one matrix at a time, but eigenvalues for the whole batch at once."""
    if C.is_cuda:
        return torch.linalg.eigvalsh(C.mT @ C).clamp_min(0).sqrt().flip(-1)
    return torch.linalg.svdvals(C)


def _of_chance(
    C: Float[Tensor, "d d"], Y: Float[Tensor, "n d"], Y_a: Float[Tensor, "n d"], noise: Float[Tensor, "n d"]
) -> Float[Tensor, ""]:
    """By how much ‖C‖_* is too high because the covariance of n points f(x) is off, too, where f(a(x)) = M f(x).

    To second order, a change A of C = U diag(σ) Vᵀ adds Σ_{i<j} (B_ij − B_ji)² / 2(σ_i + σ_j) to ‖C‖_*, B = Uᵀ A V. A
    point contributes B = u vᵀ / n, with u = Uᵀ f(a(x)) and v = Vᵀ f(x): nothing if M is a rotation, since then u = v.
    What `noise` adds is already accounted for, and left out: u² − ε² in place of u², ε = Uᵀ noise. The sum over the
    points is computed from evenly spaced ones, if there are many.
    """
    n, d = Y.shape
    every = slice(None, None, max(1, n // max(ROWS, ROWS_PER_DIMENSION * d)))
    Y, Y_a, noise = Y[every], Y_a[every], noise[every]
    squares, V = torch.linalg.eigh(C.mT @ C)
    rounding = torch.finfo(C.dtype).eps * squares[-1]
    σ = squares.clamp_min(rounding.clamp_min(torch.finfo(C.dtype).tiny)).sqrt()
    to_u = C @ V / σ
    u, ε, v = Y_a @ to_u, noise @ to_u, Y @ V
    B = (u.square() - ε.square()).mT @ v.square() - ((u - ε) * v).mT @ ((u + ε) * v)
    return (B / (σ[:, None] + σ)).sum().clamp_min(0) / (2 * n * len(Y))


def _reflection(Y: Float[Tensor, "n d"], Y_a: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """What the best map of O(d), a reflection, has more than the best of SO(d): 2 σ_d of E C.

    The smallest σ of a sample is smaller than that of the population. So the direction in which the two maps differ is
    chosen on one half of the rows, and its inner product measured on the other.
    """
    parts = [Y_a[rows].mT @ Y[rows] / len(rows) for rows in halves(Y)]
    differences = [kabsch(C, special=False) - kabsch(C, special=True) for C in parts]
    gains = [(D * C).sum() for D, C in zip(differences, reversed(parts), strict=True)]
    return torch.stack(gains).mean().clamp_min(0)


def _noises(noise: Float[Tensor, "n d"], Y: Float[Tensor, "n d"]) -> Float[Tensor, "draws d d"]:
    """W = Σ ±ε_i f(x_i)ᵀ / n for several draws of signs: as much noise as C has. C + W and C − W are used together, so
    that terms linear in W cancel."""
    n, d = Y.shape
    draws = max(1, NOISY_COORDINATES // d)
    signs = 2 * (scrambled(torch.arange(draws * n, device=Y.device)) & 1).to(Y).view(draws, n) - 1
    at_once = max(1, NUMBERS_AT_ONCE // (n * d))
    return torch.cat([(noise * some[:, :, None]).mT @ Y / n for some in signs.split(at_once)])
