"""Which views a step draws (Algorithm 1), and what is handed to the losses."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, PointPolicy, apply, coordinates
from care.augment.policy import Family
from care.whole_pictures import side_of, squares_and_aspects

Policy = ImagePolicy | PointPolicy


@dataclass(frozen=True)
class ViewSpec:
    """How a view of a batch is drawn: `draws` augmentations from `policy`, each shared by batch/draws neighbors.

    As many draws as samples is "per sample", as many as chunks is "per chunk", one is "per batch". A view that is
    `turned` holds every image four times: as it is, and after one, two and three quarter turns. One that is `like`
    the first view has its augmentations of that family, and draws all others anew. One with a `base` augments the view
    at that position once more, in place of the image. A view may be of some samples only: of every `chunk` neighbors,
    the first `kept`.
    """

    policy: Policy
    draws: int
    turned: bool = False
    like: Family | None = None
    base: int | None = None
    chunk: int = 1
    kept: int = 1

    @property
    def share(self) -> float:
        """The share of the samples that the view is of."""
        return self.kept / self.chunk

    @property
    def pixels(self) -> float:
        """How many pixels of a sample it has in all, or 1 of a point cloud: what a pass of it costs, in proportion."""
        return self.share * (4 if self.turned else 1) * getattr(self.policy, "size", 1) ** 2

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

    @property
    def parameters(self) -> Float[Tensor, "n k"]:
        """θ of every sample: neighbors that share an augmentation have the same row."""
        assert self.theta is not None
        return self.theta.repeat_interleave(len(self.inputs) // len(self.theta), 0)


@dataclass(frozen=True, eq=False)
class EncodedView(View):
    """A view with what the encoder made of it; both are None where the encoder did not see the view.

    `embedding` holds the coordinates that belong to whoever receives the view: all of them or, of a split embedding,
    the invariant part for the method and the equivariant part for the equivariance.
    """

    features: Float[Tensor, "n f"] | None = None
    embedding: Float[Tensor, "rows d"] | None = None

    @property
    def f(self) -> Float[Tensor, "n f"]:
        """The features of a view that the encoder saw."""
        assert self.features is not None
        return self.features

    @property
    def z(self) -> Float[Tensor, "rows d"]:
        """The embedding of a view that the encoder saw."""
        assert self.embedding is not None
        return self.embedding


@dataclass(frozen=True)
class ViewPlan:
    """The views of a step. `method` and `equivariance` are the positions of the views that each of them receives.

    With `theta`, the coordinates of the augmentations of the equivariance's views are drawn along, and of those that
    are `conditioned`, whose head sees them. With `squares`, they are those of the central square of a picture, and
    whole pictures of any shape will not do. The last of the equivariance's views may be `stopped`: they go forward
    only, to the equivariant part.
    """

    views: tuple[ViewSpec, ...]
    method: tuple[int, ...]
    equivariance: tuple[int, ...] = ()
    theta: bool = False
    squares: bool = False
    conditioned: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()

    def draw(
        self, inputs: Tensor, batch: int, rows: slice, generator: torch.Generator, make: "Make | None" = None
    ) -> tuple[View, ...]:
        """The views of `inputs`, which are the `rows` of a global batch of `batch` samples.

        Augmentations are drawn for the whole batch and the rows cut out, so the result does not depend on how many
        processes share the batch. `make` may be a compiled form of `make_view`.
        """
        make, source = make or make_view, _source(inputs)
        found: list[View] = []
        drawn = self._random_numbers(source, generator)
        for position, view in enumerate(self.views):
            neighbors = batch // view.draws
            numbers = tuple(view.of(n.repeat_interleave(neighbors, 0)[rows]) for n in drawn[position])
            theta = round(view.share * min(neighbors, len(inputs))) if self.wants_theta(position) else None
            augmented = inputs if view.base is None else found[view.base].inputs
            x, coordinates_of_x = make(view.policy, view.of(augmented), numbers, theta)
            found.append(View(quarter_turns(x) if view.turned else x, coordinates_of_x))
        return tuple(found)

    def _random_numbers(self, source: tuple[int, ...], generator: torch.Generator) -> list[tuple[Tensor, ...]]:
        """All that is random about every view."""
        found: list[tuple[Tensor, ...]] = []
        for view in self.views:
            numbers = view.random_numbers(source, generator)
            if view.like is not None:
                assert isinstance(view.policy, ImagePolicy)
                numbers = view.policy.sharing(numbers, found[0], view.like)
            found.append(numbers)
        return found

    def wants_theta(self, position: int) -> bool:
        """Whether θ of the view at this position is wanted."""
        return self.theta and position in (*self.equivariance, *self.conditioned)


def beside(views: tuple[ViewSpec, ...], policy: Policy, batch: int, *own: ViewSpec) -> ViewPlan:
    """The equivariance receives the first two views of the method, and `own` ones; without a method, two from `policy`.

    ValueError if the method has fewer.
    """
    drawn = views or (ViewSpec(policy, batch), ViewSpec(policy, batch))
    if len(drawn) < 2:
        raise ValueError(f"this equivariance compares two views of a sample, and the method draws {len(drawn)}")
    theirs = range(len(drawn), len(drawn) + len(own))
    return ViewPlan((*drawn, *own), tuple(range(len(views))), (0, 1, *theirs))


Make = Callable[[Policy, Tensor, tuple[Tensor, ...], int | None], tuple[Tensor, Tensor | None]]


def make_view(
    policy: Policy, inputs: Tensor, numbers: tuple[Tensor, ...], neighbors: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """(a(x), θ) of the augmentations that random numbers, a row per sample, stand for; θ of every so many `neighbors`,
    which share one.

    Nothing here is random, and all views of a policy are made alike: it is compiled once for all of them.
    """
    inputs, aspect = squares_and_aspects(inputs)
    whole = () if aspect is None else (aspect,)
    drawn = policy.from_numbers(numbers, _source(inputs), *whole)  # type: ignore[arg-type]
    theta = coordinates(drawn[::neighbors], getattr(policy, "center", 1.0)) if neighbors else None
    return apply(inputs, drawn), theta


def quarter_turns(images: Float[Tensor, "n c s s"]) -> Float[Tensor, "4*n c s s"]:
    """All images, all of them turned by 90°, by 180°, and by 270°, counterclockwise."""
    return torch.cat([images.rot90(turns, (2, 3)) for turns in range(4)])


def _source(inputs: Tensor) -> tuple[int, ...]:
    if inputs.ndim == 2:
        return (side_of(inputs),) * 2
    return tuple(inputs.shape[2:]) if inputs.ndim == 4 else (inputs.shape[1],)


def with_embedding(view: EncodedView, embedding: Tensor | None) -> EncodedView:
    """The same view with another embedding: a part of it, or that of all processes."""
    return dataclasses.replace(view, embedding=embedding)
