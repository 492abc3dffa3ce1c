"""Wahba's problem for the stabilizer of an indefinite or skew form, where no singular value decomposition answers it.

Method, in float64:
1. The best linear map A_0 by least squares, with a ridge of 1e-8 towards the identity for directions without points.
2. Its nearest group element W: the generalized polar decomposition A_0 = W S with S = J⁻¹SᵀJ, by Newton's iteration
   X ← (X + J⁻¹X⁻ᵀJ)/2 (Higham, Mackey, Mackey and Tisseur 2004).
3. Least squares on the group: A = W exp(JK), K skew for symmetric J and symmetric for skew J, by L-BFGS from W, or
   from the identity when W does not exist or fits worse.

Limits: the groups are not compact, so the least-squares problem has local minima and the answer is one of them.
Exact data that span R^d are recovered exactly; noisy ones to a stationary point, never worse than the identity; data
that do not span R^d to some element that fits. Each iteration costs O(n d² + d³) and a batch is solved one by one.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.forms import BilinearForm

NEWTON_STEPS = 60
LBFGS_STEPS = 200


def solve_stabilizer(
    source: Float[Tensor, "... n d"], target: Float[Tensor, "... n d"], form: BilinearForm
) -> Float[Tensor, "... d d"]:
    """A with Aᵀ J A = J and target ≈ source @ A.T, by the method above."""
    shape, d = source.shape[:-2], source.shape[-1]
    J = form.matrix(d).to(source.device)
    pairs = zip(source.double().flatten(0, -3), target.double().flatten(0, -3), strict=True) if shape else None
    if pairs is None:
        return _solve_one(source.double(), target.double(), J).to(source.dtype)
    return torch.stack([_solve_one(x, y, J) for x, y in pairs]).view(*shape, d, d).to(source.dtype)


def _solve_one(
    source: Float[Tensor, "n d"], target: Float[Tensor, "n d"], J: Float[Tensor, "d d"]
) -> Float[Tensor, "d d"]:
    identity = torch.eye(J.shape[0]).to(J)
    starts = [identity, generalized_polar(_least_squares(source, target), J)]
    start = min((A for A in starts if A is not None), key=lambda A: _residual(source, target, A).item())
    return _refine(source, target, start, J)


def generalized_polar(A: Float[Tensor, "d d"], J: Float[Tensor, "d d"]) -> Float[Tensor, "d d"] | None:
    """W of A = W S with WᵀJW = J and S = J⁻¹SᵀJ; None where Newton's iteration finds none.

    It exists when no eigenvalue of J⁻¹AᵀJ A lies on the closed negative real axis.
    """
    X = A
    for _ in range(NEWTON_STEPS):
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
    return (source @ A.mT - target).square().sum() / target.square().sum().clamp_min(1e-300)


def _refine(source: Tensor, target: Tensor, start: Tensor, J: Tensor) -> Float[Tensor, "d d"]:
    """min over K of ‖source (start · exp(JK))ᵀ − target‖²."""
    raw = torch.zeros_like(J, requires_grad=True)
    sign = -1 if torch.equal(J, J.mT) else 1

    def element() -> Tensor:
        return start @ torch.linalg.matrix_exp(J @ (raw + sign * raw.mT) / 2)

    optimizer = torch.optim.LBFGS(
        [raw], max_iter=LBFGS_STEPS, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        optimizer.zero_grad()
        loss = _residual(source, target, element())
        torch.autograd.backward(loss)
        return loss.item()

    with torch.enable_grad():
        optimizer.step(closure)
    with torch.no_grad():
        return element()
