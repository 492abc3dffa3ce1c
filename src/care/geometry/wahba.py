"""Wahba's problem: the rotation that best carries one set of points onto another."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.forms import Group, form_of
from care.geometry.kabsch import kabsch
from care.geometry.lorentz import solve_lorentz
from care.geometry.symplectic import solve_symplectic


def solve_wahba(
    source: Float[Tensor, "*#batch n d"], target: Float[Tensor, "*#batch n d"], group: Group = "SO"
) -> Float[Tensor, "*#batch d d"]:
    """R* = argmin_{R ∈ group} Σ_i d²(R source_i, target_i), so that target ≈ source @ R.T.

    d² is the squared distance of the group's form, ‖x − y‖² for all but "Lorentz": see `BilinearForm`.

    For "SO" and "O", Kabsch's algorithm: with targetᵀ source = U Σ Vᵀ, R* = U diag(1, …, 1, s) Vᵀ, where s = 1 for
    "O" and s = det(U) det(V) for "SO". Leading dimensions are a batch.

    Where the points leave part of R undetermined (n < d, rank-deficient points) every completion has the same error;
    the one returned moves the undetermined directions as little as possible, so equal sources and targets give the
    identity even then. A repeated singular value is harmless: it only rotates U and V together.

    For "Lorentz" the points must be on the hyperboloid, and the solution is exact too: see `care.geometry.lorentz`.
    For "Sp" there is no closed form: see `care.geometry.symplectic` for the method and its limits.

    The solution has the precision of the points, float32 at least. Raises ValueError for points that are not finite.
    """
    source, target = checked_points(source, target)
    if group == "Lorentz":
        return solve_lorentz(source, target)
    if group == "Sp":
        return solve_symplectic(source, target)
    if group not in ("SO", "O"):
        raise ValueError(f'group must be "SO", "O", "Lorentz" or "Sp", got {group!r}')
    # In float64: float32 would leave up to a quarter of the directions of a trained ResNet-18 undetermined.
    return kabsch(target.double().mT @ source.double(), special=group == "SO").to(source.dtype)


def wahba_error(
    source: Float[Tensor, "*#batch n d"], target: Float[Tensor, "*#batch n d"], group: Group = "SO"
) -> Float[Tensor, "*#batch"]:
    """W_f = min_{R ∈ group} √Σ_i d²(R source_i, target_i), fitted and scored on the same points, as in the paper.

    It grows with √n, rewards plain invariance, and is optimistic when n is not much larger than d: report
    `heldout_ratio` beside it.
    """
    source, target = checked_points(source, target)
    fitted = source @ solve_wahba(source, target, group).mT
    return form_of(group).squared_distance(fitted, target).sum(-1).sqrt()


def checked_points(source: Tensor, target: Tensor, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """Both sets of points in one shape and at least float32, or a ValueError that says what is wrong with them."""
    source, target = torch.broadcast_tensors(source, target)
    if source.ndim < 2 or source.shape[-2] < at_least:
        raise ValueError(f"points must be rows of [..., n, d] with n ≥ {at_least}, got {tuple(source.shape)}")
    if not (torch.isfinite(source).all() and torch.isfinite(target).all()):
        raise ValueError("points must be finite: the embeddings hold NaN or infinity")
    dtype = torch.promote_types(torch.promote_types(source.dtype, target.dtype), torch.float32)
    return source.to(dtype), target.to(dtype)
