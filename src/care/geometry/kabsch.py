"""Kabsch's algorithm: the orthogonal matrix nearest to a covariance of two sets of points."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def kabsch(
    covariance: Float[Tensor, "*batch d d"], special: bool, size: Float[Tensor, "*batch"] | None = None
) -> Float[Tensor, "*batch d d"]:
    """argmax_R tr(Rᵀ M) for M = `covariance`, choosing the R nearest the identity among equals.

    R is in O(d), or in SO(d) if `special`. M was rounded at `size`, that of its largest singular value unless given:
    what is smaller than its rounding determines nothing.
    """
    U, S, Vh = torch.linalg.svd(covariance)
    noise = torch.finfo(S.dtype).eps * S.shape[-1] * (S[..., :1] if size is None else size[..., None])
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
