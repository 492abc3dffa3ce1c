"""Kabsch's algorithm: the orthogonal matrix nearest to a covariance of two sets of points."""

import torch
from jaxtyping import Float
from torch import Tensor

# Weight of the preference for the identity, relative to the size of the covariance: large enough to choose among
# rotations that fit the points equally well, and too small to affect any other.
PULL = 1e-11
# Steps of `polar_by_products`: the first grow singular values from 10⁻¹⁴ to about 1, the last make them exactly 1.
GROWING, SETTLING = 40, 6
# From this d on, products are faster than an SVD on a GPU. Milliseconds on an H200, products and SVD: 7 and 3.4 for
# d = 128, 6.4 and 22 for 512, 64 and 291 for 2048. On a CPU an SVD takes a third to a fifth of the time of products.
LARGE = 256
# H⁻¹ to the power 2¹²: enough to separate the smallest singular value from one that is 1 % larger.
SQUARINGS = 12


def kabsch(
    covariance: Float[Tensor, "*batch d d"], special: bool, size: Float[Tensor, "*batch"] | None = None
) -> Float[Tensor, "*batch d d"]:
    """argmax_R tr(Rᵀ M) + ε tr R for M = `covariance`, in float64: among equally good R, the one nearest to I.

    R is in O(d), or in SO(d) if `special`. ε is tiny relative to `size`, the scale at which M was rounded (‖M‖ unless
    given).
    """
    M = covariance.double()
    size = torch.linalg.matrix_norm(M) if size is None else size
    pull = PULL * size.clamp_min(torch.finfo(M.dtype).tiny / PULL)
    M = M + pull[..., None, None] * torch.eye(M.shape[-1]).to(M)
    if M.is_cuda and M.shape[-1] >= LARGE:
        R = polar_by_products(M, special)
        if bool((R.mT @ R - torch.eye(M.shape[-1]).to(M)).abs().max() < 1e-9):
            return R
    return polar_by_svd(M, special)


def polar_by_svd(M: Float[Tensor, "*batch d d"], special: bool) -> Float[Tensor, "*batch d d"]:
    """R = U diag(1, …, 1, s) Vᵀ with M = U Σ Vᵀ, and s = det(U) det(V) if `special`, else 1."""
    U, _, Vh = torch.linalg.svd(M)
    if special:
        Vh = torch.cat([Vh[..., :-1, :], torch.linalg.det(U @ Vh).sign()[..., None, None] * Vh[..., -1:, :]], dim=-2)
    return U @ Vh


def polar_by_products(M: Float[Tensor, "*batch d d"], special: bool) -> Float[Tensor, "*batch d d"]:
    """The same, by the Newton-Schulz iteration X ← X (3 − α² XᵀX) α/2, whose steps keep U and V.

    With α = 3/2, a singular value x becomes p(x), where p(x) ≈ 9x/4 for small x and 9/16 ≤ p(x) ≤ 1 for x above 0.27;
    α = 1 then brings it to 1. Singular values that start below 10⁻¹⁴ do not reach 1: check RᵀR.
    """
    X = M / torch.linalg.matrix_norm(M)[..., None, None]
    identity = torch.eye(M.shape[-1]).to(M)
    for alpha in (1.5,) * GROWING + (1.0,) * SETTLING:
        X = X @ (1.5 * alpha * identity - 0.5 * alpha**3 * X.mT @ X)
    return X @ _reflection(X, M) if special else X


def _reflection(Q: Float[Tensor, "*batch d d"], M: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """I where det Q = 1, else the reflection I − 2vvᵀ with v the direction of M's smallest singular value.

    The eigenvalues of H = QᵀM are the singular values of M. Repeated squaring of H⁻¹ makes its largest eigenvalue
    dominate, which leaves vvᵀ.
    """
    power = torch.linalg.inv_ex(Q.mT @ M)[0]
    for _ in range(SQUARINGS):
        power = power / torch.linalg.matrix_norm(power)[..., None, None]
        power = power @ power
    strongest = power.square().sum(-2).argmax(-1)[..., None, None].expand(*M.shape[:-1], 1)
    v = power.gather(-1, strongest)
    v = v / torch.linalg.vector_norm(v, dim=-2, keepdim=True)
    reflecting = (torch.linalg.det(Q) < 0)[..., None, None]
    return torch.eye(M.shape[-1]).to(M) - 2 * reflecting * v @ v.mT
