"""Cross-fitting: maps are fitted on one half of the points and applied to the other, so overfitting is not rewarded."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.geometry.forms import Group, form_of
from care.geometry.kabsch import kabsch
from care.geometry.wahba import checked_points, solve_wahba

# Penalties of `crossfit_linear`, as multiples of the mean eigenvalue of FᵀF: from next to none to "leave F as it is".
PENALTIES = tuple(10.0**exponent for exponent in range(-6, 4))


class Principal(NamedTuple):
    """FᵀF = V diag(s) Vᵀ of each half of the rows of F and of all rows, in float64."""

    s: Float[Tensor, "*batch 3 d"]
    V: Float[Tensor, "*batch 3 d d"]


def halves(F: Float[Tensor, "*batch n d"]) -> tuple[Int[Tensor, " a"], Int[Tensor, " b"]]:
    """The indices of two fixed halves of the rows, split by a hash of the index, not by order.

    Rows may be sorted by class, or classes may alternate: every other row could then hold only half of the classes.
    """
    order = scrambled(torch.arange(F.shape[-2], device=F.device)).argsort(stable=True)
    return order[: (len(order) + 1) // 2], order[(len(order) + 1) // 2 :]


def scrambled(number: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """A hash of each number, in 32 bits."""
    number = number + 1
    for factor in (0x45D9F3B, 0x119DE1F3):
        number = (number ^ (number >> 16)) * factor & 0xFFFFFFFF
    return number ^ (number >> 16)


def crossfit_rotations(
    F: Float[Tensor, "*#batch n d"],
    F_a: Float[Tensor, "*#batch n d"],
    group: Group = "SO",
    principal: Principal | None = None,
) -> Float[Tensor, "*#batch 2 d d"]:
    """Two rotations R̂ that carry F to F_a, each fitted on one half of the rows, to be applied to the other half.

    In SO(d) and O(d), R̂ is the rotation nearest to M̂ FᵀF with the linear map M̂ of `crossfit_linear`, which is shrunk
    toward the identity, the more the noisier the data. Without noise, R̂ is Wahba's solution.
    """
    F, F_a = checked_points(F, F_a, at_least=2)
    if form_of(group).group != "O":
        return torch.stack([solve_wahba(F[..., rows, :], F_a[..., rows, :], group) for rows in halves(F)], dim=-3)
    s, V = (
        part[..., :2, :] if i == 0 else part[..., :2, :, :] for i, part in enumerate(principal or principal_axes(F))
    )
    return kabsch(crossfit_linear(F, F_a, principal) @ (V * s[..., None, :]) @ V.mT, group == "SO").to(F.dtype)


def crossfit_linear(
    F: Float[Tensor, "*#batch n d"], F_a: Float[Tensor, "*#batch n d"], principal: Principal | None = None
) -> Float[Tensor, "*#batch 2 d d"]:
    """Two unconstrained linear maps M̂ that carry F to F_a, fitted like those of `crossfit_rotations`.

    M = I + Xᵀ with X = argmin ‖F X − D‖² + λ ‖X‖² for the displacements D = F_a − F. λ minimizes the generalized
    cross-validation error ‖F X − D‖² / (1 − tr H_λ / n)², H_λ = F (FᵀF + λ)⁻¹ Fᵀ. `principal` is the result of
    `principal_axes`, which can be reused for every F_a.
    """
    F, F_a = checked_points(F, F_a, at_least=2)
    F, D = torch.broadcast_tensors(F.double(), F_a.double() - F.double())
    s, V = principal_axes(F) if principal is None else principal
    fits = [_ridge(F[..., r, :], D[..., r, :], s[..., i, :], V[..., i, :, :]) for i, r in enumerate(halves(F))]
    return torch.stack(fits, dim=-3)


def principal_axes(F: Float[Tensor, "*batch n d"]) -> Principal:
    """The principal axes of both halves of the rows and of all rows: the expensive part of a linear fit."""
    one, other = (part.mT @ part for part in (F[..., rows, :].double() for rows in halves(F)))
    s, V = torch.linalg.eigh(torch.stack([one, other, one + other], dim=-3))
    return Principal(s.clamp_min(0), V)


def crossfit_predictions(
    F: Float[Tensor, "*#batch n d"], R: Float[Tensor, "*#batch 2 d d"]
) -> Float[Tensor, "*#batch n d"]:
    """R̂f(x_i) for every row, with the map that was fitted on the other half."""
    F = F.to(R.dtype).expand(*R.shape[:-3], *F.shape[-2:])
    predicted = torch.empty_like(F)
    for rows, elsewhere in zip(halves(F), (1, 0), strict=True):
        predicted[..., rows, :] = F[..., rows, :] @ R[..., elsewhere, :, :].mT
    return predicted


def _ridge(
    F: Float[Tensor, "*batch n d"],
    D: Float[Tensor, "*batch n d"],
    s: Float[Tensor, "*#batch d"],
    V: Float[Tensor, "*#batch d d"],
) -> Float[Tensor, "*batch d d"]:
    """M of `crossfit_linear`: with B = VᵀFᵀD it is X = V (s + λ)⁻¹ B.

    Then ‖F X − D‖² = ‖D‖² − Σ_k (s_k + 2λ)/(s_k + λ)² ‖B_k‖², for every λ, so only the chosen fit is computed.
    """
    B = V.mT @ (F.mT @ D)
    strength, total = B.square().sum(-1), D.square().sum((-2, -1))
    penalties = s.mean(-1, keepdim=True).clamp_min(torch.finfo(s.dtype).tiny) * s.new_tensor(PENALTIES)
    lam, s_k = penalties[..., :, None], s[..., None, :]
    left = total[..., None] - ((s_k + 2 * lam) / (s_k + lam).square() * strength[..., None, :]).sum(-1)
    freedom = (s_k / (s_k + lam)).sum(-1) / F.shape[-2]
    best = (left.clamp_min(0) / (1 - freedom).square()).argmin(-1, keepdim=True)
    X = V @ (B / (s + penalties.gather(-1, best))[..., None])
    return torch.eye(F.shape[-1], dtype=X.dtype, device=X.device) + X.mT
