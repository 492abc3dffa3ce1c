"""The views that a step draws (Algorithm 1), and the encoded views that the losses receive."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, apply, coordinates
from care.augment.naming import Policy
from care.augment.policy import Family
from care.whole_pictures import side_of, squares_and_aspects


@dataclass(frozen=True)
class ViewSpec:
    """How a view of a batch is drawn: `draws` augmentations from `policy`, each shared by batch/draws neighbors.

    `draws` equal to the number of samples means one augmentation per sample, equal to the number of chunks one per
    chunk, and 1 one per batch.
    `turned`: the view holds every image four times, after zero, one, two and three quarter turns.
    `like`: the augmentations of this family are copied from the first view; all others are drawn anew.
    `base`: the view augments the view at this position, in place of the original image.
    `chunk`, `kept`: the view holds only the first `kept` samples of every `chunk` neighbors.
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
        """The share of the samples that the view holds."""
        return self.kept / self.chunk

    @property
    def pixels(self) -> float:
        """Pixels per sample of the batch (1 for a point cloud), to which the cost of a pass is proportional."""
        return self.share * (4 if self.turned else 1) * getattr(self.policy, "size", 1) ** 2

    def of(self, rows: Tensor) -> Tensor:
        """The rows of the samples in the view. `rows` has one row for each sample, in whole chunks."""
        if self.kept == self.chunk:
            return rows
        order = torch.arange(len(rows), device=rows.device).view(-1, self.chunk)
        return rows[order[:, : self.kept].flatten()]

    def random_numbers(self, input_shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """All random numbers of the view."""
        return self.policy.random_numbers(self.draws, input_shape, generator)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class View:
    """A view of this process's samples, before it is encoded.

    `theta` holds the coordinates of its augmentations (`care.augment.coordinates`), one row for each group of neighbors
    that share an augmentation; None unless the equivariance uses them.
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
    """A view with its features and its embedding; both are None if the encoder did not see the view.

    If the embedding is split, `embedding` holds the part of the receiver: the invariant part for the method, the
    equivariant part for the equivariance. Otherwise it holds all coordinates.
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

    `theta`: the equivariance's views, and the `conditioned` ones, come with the coordinates of their augmentations.
    `conditioned`: the positions of views whose augmentation the head sees.
    `squares`: the coordinates are defined for the central square of a picture, so whole pictures of any shape cannot be
    used.
    `stopped`: the positions of the equivariance's last views if only the equivariant part is computed for them, with no
    gradient into the backbone.
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

        Augmentations are drawn for the whole batch and then cut to `rows`, so the result does not depend on the number
        of processes. `make` may be a compiled form of `make_view`.
        """
        make, input_shape = make or make_view, _input_shape(inputs)
        found: list[View] = []
        drawn = self._random_numbers(input_shape, generator)
        for position, view in enumerate(self.views):
            neighbors = batch // view.draws
            numbers = tuple(view.of(n.repeat_interleave(neighbors, 0)[rows]) for n in drawn[position])
            theta = round(view.share * min(neighbors, len(inputs))) if self.wants_theta(position) else None
            augmented = inputs if view.base is None else found[view.base].inputs
            x, coordinates_of_x = make(view.policy, view.of(augmented), numbers, theta)
            found.append(View(quarter_turns(x) if view.turned else x, coordinates_of_x))
        return tuple(found)

    def _random_numbers(self, input_shape: tuple[int, ...], generator: torch.Generator) -> list[tuple[Tensor, ...]]:
        """All random numbers of every view."""
        found: list[tuple[Tensor, ...]] = []
        for view in self.views:
            numbers = view.random_numbers(input_shape, generator)
            if view.like is not None:
                assert isinstance(view.policy, ImagePolicy)
                numbers = view.policy.sharing(numbers, found[0], view.like)
            found.append(numbers)
        return found

    def wants_theta(self, position: int) -> bool:
        """Whether the view at this position needs θ."""
        return self.theta and position in (*self.equivariance, *self.conditioned)


def plan_sharing_views(views: tuple[ViewSpec, ...], policy: Policy, batch: int, *own: ViewSpec) -> ViewPlan:
    """A plan in which the equivariance receives the method's first two views and its `own` ones.

    Without a method, the two are drawn from `policy`. ValueError if the method has fewer than two views.
    """
    drawn = views or (ViewSpec(policy, batch), ViewSpec(policy, batch))
    if len(drawn) < 2:
        raise ValueError(f"this equivariance compares two views of a sample, and the method draws {len(drawn)}")
    theirs = range(len(drawn), len(drawn) + len(own))
    return ViewPlan((*drawn, *own), tuple(range(len(views))), (0, 1, *theirs))


def plan_sharing_all_views(views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
    """A plan in which the equivariance receives all views of the method, and has none of its own."""
    plan = plan_sharing_views(views, policy, batch)
    return dataclasses.replace(plan, equivariance=tuple(range(len(plan.views))))


Make = Callable[[Policy, Tensor, tuple[Tensor, ...], int | None], tuple[Tensor, Tensor | None]]


def make_view(
    policy: Policy, inputs: Tensor, numbers: tuple[Tensor, ...], neighbors: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """(a(x), θ) for the augmentations that `numbers` encode, one row for each sample; θ has a row for each group of
    `neighbors`, which share an augmentation.

    The function is deterministic, and the same for all views of a policy, so it is compiled once for all of them.
    """
    inputs, aspect = squares_and_aspects(inputs)
    whole = () if aspect is None else (aspect,)
    drawn = policy.from_numbers(numbers, _input_shape(inputs), *whole)  # type: ignore[arg-type]
    theta = coordinates(drawn[::neighbors], getattr(policy, "center", 1.0)) if neighbors else None
    return apply(inputs, drawn), theta


def quarter_turns(images: Float[Tensor, "n c s s"]) -> Float[Tensor, "4*n c s s"]:
    """The images turned by 0°, 90°, 180° and 270° counterclockwise, one block after the other."""
    return torch.cat([images.rot90(turns, (2, 3)) for turns in range(4)])


def _input_shape(inputs: Tensor) -> tuple[int, ...]:
    if inputs.ndim == 2:
        return (side_of(inputs),) * 2
    return tuple(inputs.shape[2:]) if inputs.ndim == 4 else (inputs.shape[1],)


def with_embedding(view: EncodedView, embedding: Tensor | None) -> EncodedView:
    """The same view with another embedding, such as a part of it or the one gathered over processes."""
    return dataclasses.replace(view, embedding=embedding)
