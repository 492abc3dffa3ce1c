"""The source points of a fit, restricted to the directions that the data are sufficient to fit."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry.crossfit import Principal, principal_axes
from care.geometry.wahba import checked_points

# The fewest points per direction: with fewer, rotations fit by chance.
POINTS_PER_DIRECTION = 4


@dataclass(frozen=True, eq=False)
class Source:
    """F with rows f(x_i), and everything that fits from F share.

    Maps act on the span of the orthonormal columns of `basis` and are the identity on its orthogonal complement.
    Without a basis, they act on the whole space. `principal` holds the principal axes of F in the coordinates of the
    span.
    """

    F: Float[Tensor, "n d"]
    basis: Float[Tensor, "d r"] | None
    principal: Principal

    @property
    def dimension(self) -> int:
        """The dimension of the span, in which maps are fitted."""
        return self.principal.s.shape[-1]

    @property
    def rank(self) -> int:
        """How many directions of the span F uses."""
        return int((self.principal.s[-1] > self._smallest).sum())

    @property
    def share(self) -> float:
        """The share of the variance of F that lies in the span."""
        whole, within = ((X - X.mean(0)).square().sum() for X in (self.F, self.coordinates(self.F)))
        return float(within / whole) if whole > 0 else 1.0

    def coordinates(self, points: Float[Tensor, "n d"]) -> Float[Tensor, "n r"]:
        """The points in the coordinates of the span."""
        return points if self.basis is None else points @ self.basis

    def moved(self, points: Float[Tensor, "n d"], coordinates: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """The points with new `coordinates` in the span; their component orthogonal to the span is unchanged."""
        if self.basis is None:
            return coordinates
        return points + (coordinates - points @ self.basis) @ self.basis.mT

    def least_squares(self, Y_a: Float[Tensor, "n r"]) -> Float[Tensor, "r r"]:
        """X = argmin ‖Y X − Y_a‖² for the coordinates Y of F; of several minimizers, the one of least norm."""
        s, V = self.principal.s[-1], self.principal.V[-1]
        inverse = torch.where(s > self._smallest, 1 / s.clamp_min(torch.finfo(s.dtype).tiny), 0)
        return V @ (inverse[..., None] * (V.mT @ (self.coordinates(self.F).to(Y_a).mT @ Y_a)))

    @property
    def _smallest(self) -> Float[Tensor, ""]:
        """Eigenvalues up to this value are the rounding of F in single precision."""
        return self.principal.s[-1].max() * 1e-13 * self.dimension


def source_of(F: Float[Tensor, "n d"], others: Float[Tensor, "m d"] | None = None, rank: int | None = None) -> Source:
    """F in the span of its `rank` leading directions; all directions by default, if there are enough points.

    The leading directions are those of F and `others` together, such as augmented points: a rotation may carry F out of
    its own span.
    """
    F = checked_points(F, F, at_least=2)[0]
    n, d = F.shape
    rank = min(rank or d, d, max(1, n // POINTS_PER_DIRECTION))
    basis = None if rank == d else leading_directions(F if others is None else torch.cat([F, others]), rank)
    return Source(F, basis, principal_axes(F if basis is None else F @ basis))


def leading_directions(points: Float[Tensor, "n d"], rank: int) -> Float[Tensor, "d r"]:
    """The orthonormal directions that hold most of Σ ‖x_i‖²."""
    X = points.double()
    n, d = X.shape
    if n >= d:
        return torch.linalg.eigh(X.mT @ X).eigenvectors[:, -rank:].to(points.dtype)
    return torch.linalg.svd(X, full_matrices=False).Vh[:rank].mT.to(points.dtype)
