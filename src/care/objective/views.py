"""Which views a step draws (Algorithm 1), and what is handed to the losses."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, PointPolicy, apply, coordinates

Policy = ImagePolicy | PointPolicy


@dataclass(frozen=True)
class ViewSpec:
    """How a view of a batch is drawn: `draws` augmentations from `policy`, each shared by batch/draws neighbors.

    As many draws as samples is "per sample", as many as chunks is "per chunk", one is "per batch". A view may be
    of some samples only: of every `chunk` neighbors, the first `kept`.
    """

    policy: Policy
    draws: int
    chunk: int = 1
    kept: int = 1

    @property
    def share(self) -> float:
        """The share of the samples that the view is of."""
        return self.kept / self.chunk

    def of(self, rows: Tensor) -> Tensor:
        """Those of the rows, one for each sample, that belong to the view; processes hold whole chunks."""
        if self.kept == self.chunk:
            return rows
        order = torch.arange(len(rows), device=rows.device).view(-1, self.chunk)
        return rows[order[:, : self.kept].flatten()]

    def random_numbers(self, source: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """All that is random about the view."""
        return self.policy.random_numbers(self.draws, source, generator)  # type: ignore[arg-type]


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
        processes share the batch. `make` may be a compiled form of `make_view`.
        """
        make, source, found = make or make_view, _source(inputs), []
        for position, view in enumerate(self.views):
            neighbors = batch // view.draws
            drawn = (n.repeat_interleave(neighbors, 0)[rows] for n in view.random_numbers(source, generator))
            numbers = tuple(view.of(n) for n in drawn)
            theta = round(view.share * min(neighbors, len(inputs))) if self.wants_theta(position) else None
            found.append(View(*make(view.policy, view.of(inputs), numbers, theta)))
        return tuple(found)

    def wants_theta(self, position: int) -> bool:
        """Whether θ of the view at this position is wanted."""
        return self.theta and position in self.equivariance


Make = Callable[[Policy, Tensor, tuple[Tensor, ...], int | None], tuple[Tensor, Tensor | None]]


def make_view(
    policy: Policy, inputs: Tensor, numbers: tuple[Tensor, ...], neighbors: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """(a(x), θ) of the augmentations that random numbers, a row per sample, stand for; θ of every so many `neighbors`,
    which share one.

    Nothing here is random, and all views of a policy are made alike: it is compiled once for all of them.
    """
    drawn = policy.from_numbers(numbers, _source(inputs))  # type: ignore[arg-type]
    theta = coordinates(drawn[::neighbors], getattr(policy, "center", 1.0)) if neighbors else None
    return apply(inputs, drawn), theta


def _source(inputs: Tensor) -> tuple[int, ...]:
    return tuple(inputs.shape[2:]) if inputs.ndim == 4 else (inputs.shape[1],)


def with_embedding(view: EncodedView, embedding: Tensor | None) -> EncodedView:
    """The same view with another embedding: a part of it, or that of all processes."""
    return dataclasses.replace(view, embedding=embedding)
