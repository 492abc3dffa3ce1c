"""Which views a step draws (Algorithm 1), and what is handed to the losses."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, Parameters, PointPolicy, apply, coordinates

Policy = ImagePolicy | PointPolicy


@dataclass(frozen=True)
class ViewSpec:
    """How a view of a batch is drawn: `draws` augmentations from `policy`, each shared by batch/draws neighbors.

    As many draws as samples is "per sample", as many as chunks is "per chunk", one is "per batch".
    """

    policy: Policy
    draws: int

    def random_numbers(self, source: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """All that is random about the view."""
        return self.policy.random_numbers(self.draws, source, generator)  # type: ignore[arg-type]

    def augmentations(self, batch: int, source: tuple[int, ...], numbers: tuple[Tensor, ...]) -> Parameters:
        """One augmentation per sample of a batch of `batch`, shared by neighbors where there are fewer draws."""
        return self.policy.from_numbers(numbers, source).repeat(batch // self.draws)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class View:
    """A view of the samples of a process, as it was drawn.

    `theta` are the coordinates of its augmentations (`care.augment.coordinates`), a row for every group of neighbors
    that share one; None unless the equivariance asks for them.
    """

    inputs: Float[Tensor, "n ..."]
    theta: Float[Tensor, "draws k"] | None = None


@dataclass(frozen=True, eq=False)
class EncodedView(View):
    """A view with what the encoder made of it; both are None where the encoder did not see the view.

    `embedding` holds the coordinates that belong to whoever receives the view: all of them or, of a split embedding,
    the invariant part for the method and the equivariant part for the equivariance.
    """

    features: Float[Tensor, "n f"] | None = None
    embedding: Float[Tensor, "rows d"] | None = None

    @property
    def z(self) -> Float[Tensor, "rows d"]:
        """The embedding of a view that the encoder saw."""
        assert self.embedding is not None
        return self.embedding


@dataclass(frozen=True)
class ViewPlan:
    """The views of a step. `method` and `equivariance` are the positions of the views that each of them receives.

    With `theta`, the coordinates of the augmentations of the equivariance's views are drawn along.
    """

    views: tuple[ViewSpec, ...]
    method: tuple[int, ...]
    equivariance: tuple[int, ...] = ()
    theta: bool = False

    def draw(
        self, inputs: Tensor, batch: int, rows: slice, generator: torch.Generator, make: "Make | None" = None
    ) -> tuple[View, ...]:
        """The views of `inputs`, which are the `rows` of a global batch of `batch` samples.

        Augmentations are drawn for the whole batch and the rows cut out, so the result does not depend on how many
        processes share the batch. `make` may be a compiled form of `make_views`.
        """
        numbers = [view.random_numbers(_source(inputs), generator) for view in self.views]
        return tuple(View(*made) for made in (make or make_views)(self, inputs, batch, rows, numbers))

    def wants_theta(self, position: int) -> bool:
        """Whether θ of the view at this position is wanted."""
        return self.theta and position in self.equivariance


Make = Callable[[ViewPlan, Tensor, int, slice, list[tuple[Tensor, ...]]], list[tuple[Tensor, Tensor | None]]]


def make_views(
    plan: ViewPlan, inputs: Tensor, batch: int, rows: slice, numbers: list[tuple[Tensor, ...]]
) -> list[tuple[Tensor, Tensor | None]]:
    """(a(x), θ) of every view of `plan` that these random numbers stand for. Nothing here is random: it can be
    compiled, which is why it returns tensors."""
    made = []
    for position, (view, mine) in enumerate(zip(plan.views, numbers, strict=True)):
        drawn = view.augmentations(batch, _source(inputs), mine)[rows]
        theta = _coordinates(view, drawn, batch) if plan.wants_theta(position) else None
        made.append((apply(inputs, drawn), theta))
    return made


def _coordinates(view: ViewSpec, augmentations: Parameters, batch: int) -> Tensor:
    """θ of every draw, out of augmentations of the samples that share them."""
    neighbors = min(batch // view.draws, len(augmentations))
    return coordinates(augmentations[::neighbors], getattr(view.policy, "center", 1.0))


def _source(inputs: Tensor) -> tuple[int, ...]:
    return tuple(inputs.shape[2:]) if inputs.ndim == 4 else (inputs.shape[1],)


def with_embedding(view: EncodedView, embedding: Tensor | None) -> EncodedView:
    """The same view with another embedding: a part of it, or that of all processes."""
    return dataclasses.replace(view, embedding=embedding)
