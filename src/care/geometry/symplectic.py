"""Wahba's problem for the symplectic group, which a singular value decomposition cannot solve.

Method, in float64:
1. The best linear map A_0 by least squares, with a ridge of 1e-8 towards the identity for directions without points.
2. Its nearest group element W: the generalized polar decomposition A_0 = W S with S = J⁻¹SᵀJ, by Newton's iteration
   X ← (X + J⁻¹X⁻ᵀJ)/2 (Higham, Mackey, Mackey and Tisseur 2004).
3. Least squares on the group by the Gauss-Newton method, A ← A exp(JK) with symmetric K, from W, or from the identity
   when W does not exist or fits worse.

Limits: the group is not compact, so the least-squares problem has local minima and the answer is one of them. From
exact data that span R^d, the element is recovered exactly; from noisy data, the result is a stationary point, never
worse than the identity; from data that do not span R^d, it is some element that fits. Each iteration costs O(d³), and
the problems of a batch are solved one by one.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.forms import Symplectic

POLAR_STEPS = 60
STEPS, HALVINGS = 200, 30
SMALLEST_GAIN = 1e-8  # the steps end when the residual falls by a smaller fraction than this


def solve_symplectic(
    source: Float[Tensor, "*batch n d"], target: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch d d"]:
    """A with Aᵀ J A = J and target ≈ source @ A.T, by the method above."""
    shape, d = source.shape[:-2], source.shape[-1]
    J = Symplectic().matrix(d).to(source.device)
    pairs = torch.cat([source, target], dim=-1).double().reshape(-1, source.shape[-2], 2 * d)
    return torch.stack([_solve_one(pair, J) for pair in pairs]).view(*shape, d, d).to(source.dtype)


def _solve_one(pairs: Float[Tensor, "n two_d"], J: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    """The rows of `pairs` are (x_i, y_i). An orthogonal map of the rows changes no residual and leaves at most 2d."""
    source, target = torch.linalg.qr(pairs, mode="r").R.chunk(2, dim=-1)
    starts = [torch.eye(J.shape[0]).to(J), generalized_polar(_least_squares(source, target), J)]
    start = min((A for A in starts if A is not None), key=lambda A: _residual(source, target, A).item())
    return _refine(source, target, start, J)


def generalized_polar(A: Float[Tensor, "d d"], J: Float[Tensor, "d d"]) -> Float[Tensor, "d d"] | None:
    """W of A = W S with WᵀJW = J and S = J⁻¹SᵀJ; None if Newton's iteration does not converge to one.

    It exists when no eigenvalue of J⁻¹AᵀJ A lies on the closed negative real axis.
    """
    X = A
    for _ in range(POLAR_STEPS):
        inverse, failed = torch.linalg.inv_ex(X)
        following = (X + J.mT @ inverse.mT @ J) / 2
        if failed or not torch.isfinite(following).all():
            return None
        if torch.linalg.matrix_norm(following - X) <= 1e-14 * torch.linalg.matrix_norm(X):
            return following
        X = following
    return X if torch.linalg.matrix_norm(X.mT @ J @ X - J) <= 1e-8 * torch.linalg.matrix_norm(X).square() else None


def _least_squares(source: Float[Tensor, "n d"], target: Float[Tensor, "n d"]) -> Float[Tensor, "d d"]:
    ridge = 1e-8 * torch.linalg.matrix_norm(source, ord=2) * torch.eye(source.shape[-1]).to(source)
    return torch.linalg.lstsq(torch.cat([source, ridge]), torch.cat([target, ridge])).solution.mT


def _residual(source: Tensor, target: Tensor, A: Tensor) -> Float[Tensor, ""]:
    return (source @ A.mT - target).square().sum()


def _refine(source: Tensor, target: Tensor, A: Tensor, J: Tensor) -> Float[Tensor, "d d"]:
    """Steps A ← A exp(tJK), with t halved until the residual falls, for as long as it falls by more than rounding."""
    error, rounding = _residual(source, target, A), 1e-20 * target.square().sum()
    for _ in range(STEPS):
        K = _step(source, target, A, J)
        for halving in range(HALVINGS):
            following = A @ torch.linalg.matrix_exp(J @ K / 2**halving)
            gain = error - _residual(source, target, following)
            if gain > 0:
                break
        if not gain > SMALLEST_GAIN * error + rounding:
            return A
        A, error = following, error - gain
    return A


def _step(source: Tensor, target: Tensor, A: Tensor, J: Tensor) -> Float[Tensor, "d d"]:
    """The symmetric K with the least Σ ‖A(x_i + JK x_i) − y_i‖².

    With B = AJ, P = BᵀB, Q = Σ x_i x_iᵀ and G = Bᵀ Σ (Ax_i − y_i) x_iᵀ it solves PKQ + QKP = −(G + Gᵀ). Where VᵀQV = I
    and VᵀPV = diag(λ), K = VZVᵀ with Z_ij = −(Vᵀ(G + Gᵀ)V)_ij / (λ_i + λ_j).
    """
    B, Q = A @ J, source.mT @ source
    G = B.mT @ (source @ A.mT - target).mT @ source
    ridge = 1e-10 * Q.diagonal().mean().clamp_min(torch.finfo(Q.dtype).tiny) * torch.eye(len(J)).to(J)
    whiten = torch.linalg.inv(torch.linalg.cholesky(Q + ridge)).mT
    values, basis = torch.linalg.eigh(whiten.mT @ B.mT @ B @ whiten)
    V = whiten @ basis
    return -V @ (V.mT @ (G + G.mT) @ V / (values[:, None] + values[None, :])) @ V.mT
