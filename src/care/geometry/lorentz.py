"""Wahba's problem on the hyperboloid, in closed form.

The solution is the Lorentz transformation A that keeps the direction of time and minimizes Σ ⟨Ax_i − y_i, Ax_i − y_i⟩ =
−2n − 2 Σ ⟨Ax_i, y_i⟩, with ⟨·,·⟩ the Minkowski form and x_i, y_i on the hyperboloid.

1. L = −Σ y_i ⟨x_i, ·⟩ maps the cone of future directions into itself, and so does its adjoint L*. By the
   Perron-Frobenius theorem, L*L has an eigenvector u in the cone, with the largest eigenvalue τ². Let w be Lu,
   normalized.
2. L maps the orthogonal complement of u to that of w. Both complements are Euclidean spaces.
3. A carries u to w, and between the complements it is Kabsch's rotation or reflection R.

This A is optimal: in the frames of u and w, Σ y_i x_iᵀ is diag(τ, M). Any other A has a rapidity η in these frames, and
Σ ⟨Ax_i, y_i⟩ ≤ (σ_1 − τ) cosh η + σ_2 + σ_3 + …, with σ the singular values of M (von Neumann) and σ_1 ≤ τ. Equality
holds at η = 0 and A = R.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.forms import Minkowski, frame
from care.geometry.kabsch import kabsch

MINKOWSKI = Minkowski()


def solve_lorentz(
    source: Float[Tensor, "*batch n d"], target: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch d d"]:
    """The A above, with target ≈ source @ A.T. Computed in float64 around the apex, where rounding is least."""
    to_source, to_target = (frame(_normalized(_on_hyperboloid(points).mean(-2))) for points in (source, target))
    x = MINKOWSKI.embed(_on_hyperboloid(source) @ _adjoint(to_source).mT)
    y = MINKOWSKI.embed(_on_hyperboloid(target) @ _adjoint(to_target).mT)
    return (to_target @ _solve(x, y) @ _adjoint(to_source)).to(source.dtype)


def _solve(x: Float[Tensor, "*batch n d"], y: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch d d"]:
    N = y.mT @ x
    L = -MINKOWSKI.apply_matrix(N)
    u = _future(_adjoint(L) @ L)
    w = _normalized((L @ u[..., None]).squeeze(-1))
    to_u, to_w = frame(u), frame(w)
    M = (_adjoint(to_w) @ N @ _adjoint(to_u))[..., 1:, 1:]
    R = kabsch(M, special=False, size=torch.linalg.matrix_norm(N))
    return torch.cat([to_w[..., :1], to_w[..., 1:] @ R], dim=-1) @ _adjoint(to_u)


def _adjoint(A: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """A* = J Aᵀ J, with ⟨Ax, y⟩ = ⟨x, A*y⟩. For a Lorentz transformation, A* = A⁻¹."""
    return MINKOWSKI.apply_matrix(MINKOWSKI.apply_matrix(A).mT)


def _future(A: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d"]:
    """The eigenvector of the largest eigenvalue, on the hyperboloid."""
    values, vectors = torch.linalg.eig(A)
    largest = values.real.argmax(-1)[..., None, None].expand(*A.shape[:-1], 1)
    return _normalized(vectors.real.gather(-1, largest).squeeze(-1))


def _normalized(u: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """The point of the hyperboloid in the direction of u or −u."""
    length = (u[..., :1].square() - u[..., 1:].square().sum(-1, keepdim=True)).sqrt() * u[..., :1].sign()
    return MINKOWSKI.embed(u / length)


def _on_hyperboloid(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """The points in float64, with the time coordinate recomputed to remove its rounding error."""
    exact = MINKOWSKI.embed(x.double())
    if ((exact[..., 0] - x[..., 0]).abs() > 1e-3 * exact[..., 0]).any():
        raise ValueError("the Lorentz group acts on the hyperboloid: pass points of Minkowski().embed")
    return exact
