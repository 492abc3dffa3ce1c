"""Bilinear forms B(x, y) = xᵀ J y and the groups that leave them unchanged (the paper's "Extensions to other groups").

| form       | J                | stabilizer          | embedding space                      |
|------------|------------------|---------------------|--------------------------------------|
| Euclidean  | I                | O(d)                | unit sphere, B(x, x) = 1             |
| Minkowski  | diag(−1, 1 … 1)  | Lorentz O(1, d−1)   | hyperboloid, B(x, x) = −1 and x_0 > 0 |
| Symplectic | [[0, I], [−I, 0]] | Sp(2k)             | R^2k                                 |

The squared distance of two points is B(x − y, x − y) on the sphere and on the hyperboloid: 2 − 2 cos θ and 2 cosh θ − 2
for points θ apart. The group preserves it. Sp(2k) preserves no distance on R^2k: there it is ‖x − y‖², which depends on
the coordinates.

`embed` is a retraction: it maps R^d onto the embedding space inside the same R^d and leaves points already there
where they are. Losses can therefore always apply it, and the width of a projection head does not depend on the form.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Group = Literal["SO", "O", "Lorentz", "Sp"]

# Zero vectors have no direction: they stay where they are instead of becoming NaN, with gradients of at most 1e8.
SMALLEST_NORM = 1e-8


@dataclass(frozen=True)
class BilinearForm(ABC):
    """B(x, y) = xᵀ J y on R^d. `group` names the stabilizer {A : B(Ax, Ay) = B(x, y)} for `solve_wahba`."""

    name: ClassVar[str]
    group: ClassVar[Group]

    @abstractmethod
    def matrix(self, d: int) -> Float[Tensor, "d d"]:
        """J, in float64 on the CPU."""

    @abstractmethod
    def apply_matrix(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """J x for every row x, without building J."""

    @abstractmethod
    def embed(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Map x to a point of the embedding space."""

    @abstractmethod
    def random_element(self, d: int, generator: torch.Generator, spread: float = 1.0) -> Float[Tensor, "d d"]:
        """A random element of the stabilizer, float64, on the generator's device."""

    def squared_distance(
        self, x: Float[Tensor, "*#batch d"], y: Float[Tensor, "*#batch d"]
    ) -> Float[Tensor, "*#batch"]:
        """‖x − y‖², row by row."""
        return (x - y).square().sum(-1)

    def gram(self, x: Float[Tensor, "... n d"], y: Float[Tensor, "... m d"] | None = None) -> Float[Tensor, "... n m"]:
        """G_ij = B(x_i, y_j), with y = x unless given."""
        return x @ self.apply_matrix(x if y is None else y).mT

    def contains(self, element: Float[Tensor, "... d d"], tolerance: float | None = None) -> Bool[Tensor, "..."]:
        """Whether Aᵀ J A = J, up to `tolerance` times ‖A‖² (default: d times the rounding of the dtype)."""
        d = element.shape[-1]
        if tolerance is None:
            tolerance = 8 * d * torch.finfo(element.dtype).eps
        J = self.matrix(d).to(element)
        scale = torch.linalg.matrix_norm(element).square()
        return torch.linalg.matrix_norm(element.mT @ J @ element - J) <= tolerance * scale


@dataclass(frozen=True)
class Euclidean(BilinearForm):
    """B(x, y) = Σ x_i y_i, stabilized by the orthogonal group O(d). The paper's choice."""

    name: ClassVar[str] = "euclidean"
    group: ClassVar[Group] = "O"

    def matrix(self, d: int) -> Float[Tensor, "d d"]:
        """J = I."""
        return torch.eye(d, dtype=torch.float64)

    def apply_matrix(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """J x = x."""
        return x

    def embed(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Onto the unit sphere: x / ‖x‖."""
        return torch.nn.functional.normalize(x, dim=-1, eps=SMALLEST_NORM)

    def random_element(self, d: int, generator: torch.Generator, spread: float = 1.0) -> Float[Tensor, "d d"]:
        """Uniform (Haar) on O(d): QR of a Gaussian matrix with the signs of R's diagonal moved into Q.

        The group is compact, so `spread` has nothing to scale and is ignored.
        """
        q, r = torch.linalg.qr(_normal(d, d, generator))
        return q * r.diagonal().sign()


@dataclass(frozen=True)
class Minkowski(BilinearForm):
    """B(x, y) = −x_0 y_0 + Σ_{i>0} x_i y_i, stabilized by the Lorentz group. Coordinate 0 is time."""

    name: ClassVar[str] = "minkowski"
    group: ClassVar[Group] = "Lorentz"

    def matrix(self, d: int) -> Float[Tensor, "d d"]:
        """J = diag(−1, 1, …, 1)."""
        J = torch.eye(d, dtype=torch.float64)
        J[0, 0] = -1.0
        return J

    def apply_matrix(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """J x = (−x_0, x_1, …)."""
        return torch.cat([-x[..., :1], x[..., 1:]], dim=-1)

    def embed(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Onto the hyperboloid: keep the space coordinates s and set time to √(1 + ‖s‖²).

        Unlike the exponential map at the apex it cannot overflow, and its gradient is finite everywhere.
        """
        space = x[..., 1:]
        return torch.cat([(1 + space.square().sum(-1, keepdim=True)).sqrt(), space], dim=-1)

    def squared_distance(
        self, x: Float[Tensor, "*#batch d"], y: Float[Tensor, "*#batch d"]
    ) -> Float[Tensor, "*#batch"]:
        """B(x − y, x − y), row by row. On the hyperboloid it is never negative, so rounding below 0 is clamped."""
        return ((x - y) * self.apply_matrix(x - y)).sum(-1).clamp_min(0)

    def random_element(self, d: int, generator: torch.Generator, spread: float = 1.0) -> Float[Tensor, "d d"]:
        """A uniform rotation of space followed by a boost of rapidity `spread`·|N(0, 1)| in a uniform direction.

        Every Lorentz transformation that keeps the direction of time, and hence the hyperboloid, has this form
        (up to a reflection, which the rotation of space may contain).
        """
        rotation = torch.eye(d, dtype=torch.float64, device=generator.device)
        rotation[1:, 1:] = Euclidean().random_element(d - 1, generator)
        direction = Euclidean().embed(_normal(d - 1, 1, generator).squeeze(-1))
        rapidity = spread * _normal(1, 1, generator).abs().squeeze()
        return boost(direction, rapidity) @ rotation


@dataclass(frozen=True)
class Symplectic(BilinearForm):
    """B(x, y) = Σ_i q_i(x) p_i(y) − p_i(x) q_i(y) with x = (q, p), stabilized by Sp(2k)."""

    name: ClassVar[str] = "symplectic"
    group: ClassVar[Group] = "Sp"

    def matrix(self, d: int) -> Float[Tensor, "d d"]:
        """J = [[0, I], [−I, 0]]."""
        return self.apply_matrix(torch.eye(d, dtype=torch.float64)).mT.contiguous()

    def apply_matrix(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """J (q, p) = (p, −q)."""
        q, p = self.embed(x).chunk(2, dim=-1)
        return torch.cat([p, -q], dim=-1)

    def embed(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """The identity on R^2k; an odd dimension raises ValueError."""
        if x.shape[-1] % 2:
            raise ValueError(f"the symplectic form needs an even dimension, got {x.shape[-1]}")
        return x

    def random_element(self, d: int, generator: torch.Generator, spread: float = 1.0) -> Float[Tensor, "d d"]:
        """exp(J S) with S symmetric, entries N(0, spread²/d): J S is in the Lie algebra of Sp(2k)."""
        S = _normal(d, d, generator) * (spread / d**0.5)
        J = self.matrix(d).to(S)
        return torch.linalg.matrix_exp(J @ (S + S.mT) / 2)


FORMS: dict[str, BilinearForm] = {form.name: form for form in (Euclidean(), Minkowski(), Symplectic())}


def form_named(name: str) -> BilinearForm:
    """The form called "euclidean", "minkowski" or "symplectic"."""
    if name not in FORMS:
        raise ValueError(f"unknown bilinear form {name!r}: choose one of {', '.join(FORMS)}")
    return FORMS[name]


def form_of(group: Group) -> BilinearForm:
    """The form that a group leaves unchanged; SO(d) is a part of O(d)."""
    return next(form for form in FORMS.values() if form.group == ("O" if group == "SO" else group))


def boost(direction: Float[Tensor, " space"], rapidity: Float[Tensor, ""]) -> Float[Tensor, "d d"]:
    """The Lorentz boost along the unit vector u that carries the apex to (cosh η, sinh η u)."""
    return frame(torch.cat([rapidity.cosh().view(1), rapidity.sinh() * direction]))


def frame(u: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d d"]:
    """The boost that carries the apex (1, 0, …, 0) to u = (t, s): [[t, sᵀ], [s, I + s sᵀ / (1 + t)]]."""
    t, s = u[..., :1, None], u[..., 1:, None]
    space = torch.eye(s.shape[-2]).to(u) + s @ s.mT / (1 + t)
    return torch.cat([torch.cat([t, s.mT], dim=-1), torch.cat([s, space], dim=-1)], dim=-2)


def _normal(rows: int, columns: int, generator: torch.Generator) -> Float[Tensor, "{rows} {columns}"]:
    return torch.randn(rows, columns, dtype=torch.float64, generator=generator, device=generator.device)
