"""Wahba's problem: the rotation that best carries one set of points onto another."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from care.geometry.forms import Group, Minkowski, Symplectic
from care.geometry.stabilizer import solve_stabilizer


def solve_wahba(
    source: Float[Tensor, "*#batch n d"], target: Float[Tensor, "*#batch n d"], group: Group = "SO"
) -> Float[Tensor, "*#batch d d"]:
    """R* = argmin_{R ∈ group} ‖source Rᵀ − target‖_Fro, so that target ≈ source @ R.T.

    For "SO" and "O", Kabsch's algorithm: with targetᵀ source = U Σ Vᵀ, R* = U diag(1, …, 1, s) Vᵀ, where s = 1 for
    "O" and s = det(U) det(V) for "SO". Leading dimensions are a batch.

    Where the points leave part of R undetermined (n < d, rank-deficient points) every completion has the same error;
    the one returned moves the undetermined directions as little as possible, so equal sources and targets give the
    identity even then. A repeated singular value is harmless: it only rotates U and V together.

    For "Lorentz" and "Sp" there is no closed form: see `care.geometry.stabilizer` for the method and its limits.

    Half precision is solved in float32. Raises ValueError for points that are not finite.
    """
    source, target = checked_points(source, target)
    if group == "Lorentz":
        return solve_stabilizer(source, target, Minkowski())
    if group == "Sp":
        return solve_stabilizer(source, target, Symplectic())
    if group not in ("SO", "O"):
        raise ValueError(f'group must be "SO", "O", "Lorentz" or "Sp", got {group!r}')
    return _kabsch(target.mT @ source, special=group == "SO")


def wahba_error(
    source: Float[Tensor, "*#batch n d"], target: Float[Tensor, "*#batch n d"], group: Group = "SO"
) -> Float[Tensor, "*#batch"]:
    """W_f = min_{R ∈ group} ‖source Rᵀ − target‖_Fro, fitted and scored on the same points, as in the paper.

    It grows with √n, rewards plain invariance, and is optimistic when n is not much larger than d: report
    `heldout_ratio` beside it.
    """
    source, target = checked_points(source, target)
    return torch.linalg.matrix_norm(source @ solve_wahba(source, target, group).mT - target)


def _kabsch(covariance: Float[Tensor, "*#batch d d"], special: bool) -> Float[Tensor, "*batch d d"]:
    """argmax_R tr(Rᵀ M) for M = `covariance`, choosing the R nearest the identity among equals."""
    U, S, Vh = torch.linalg.svd(covariance)
    noise = torch.finfo(S.dtype).eps * S.shape[-1] * S[..., :1]
    free = noise >= S
    if free.any():
        U, Vh = _least_moving(U, Vh, free)
    if special:
        Vh = torch.cat([Vh[..., :-1, :], torch.linalg.det(U @ Vh).sign()[..., None, None] * Vh[..., -1:, :]], dim=-2)
    return U @ Vh


def _least_moving(
    U: Float[Tensor, "*batch d d"], Vh: Float[Tensor, "*batch d d"], free: Bool[Tensor, "*batch d"]
) -> tuple[Float[Tensor, "*batch d d"], Float[Tensor, "*batch d d"]]:
    """U and Vᵀ with the free directions, which come last, chosen so that U Vᵀ moves them as little as possible.

    R = U Q Vᵀ with Q = I on the determined directions. On the free ones, tr R = tr(Q VᵀU) is largest at the orthogonal
    factor of their block of UᵀV. The 2 keeps that block's singular values apart from those of determined directions,
    which are in it where other members of the batch have more free ones.
    """
    most = int(free.sum(-1).max())
    last_U, last_Vh, free = U[..., -most:], Vh[..., -most:, :], free[..., -most:]
    block = torch.where(free[..., :, None] & free[..., None, :], last_U.mT @ last_Vh.mT, 0)
    A, _, Bh = torch.linalg.svd(block + torch.diag_embed(2.0 * ~free))
    return torch.cat([U[..., :-most], last_U @ A], dim=-1), torch.cat([Vh[..., :-most, :], Bh @ last_Vh], dim=-2)


def checked_points(source: Tensor, target: Tensor, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """Both sets of points in one shape and at least float32, or a ValueError that says what is wrong with them."""
    source, target = torch.broadcast_tensors(source, target)
    if source.ndim < 2 or source.shape[-2] < at_least:
        raise ValueError(f"points must be rows of [..., n, d] with n ≥ {at_least}, got {tuple(source.shape)}")
    if not (torch.isfinite(source).all() and torch.isfinite(target).all()):
        raise ValueError("points must be finite: the embeddings hold NaN or infinity")
    dtype = torch.promote_types(torch.promote_types(source.dtype, target.dtype), torch.float32)
    return source.to(dtype), target.to(dtype)
