"""Which views a training step draws (Algorithm 1): some with an augmentation per sample, some with one per chunk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from care.augment import ImagePolicy, Parameters, PointPolicy, apply, coordinates

Sharing = Literal["chunk", "batch"]


@dataclass(frozen=True)
class View:
    """How one view of a batch is drawn: `draws` augmentations from `policy`, each for batch/draws neighboring samples.

    As many draws as samples is "per sample", as many as chunks is "per chunk", one is "the whole batch".
    """

    policy: ImagePolicy | PointPolicy
    draws: int

    def random_numbers(self, source: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """All that is random about the view."""
        return self.policy.random_numbers(self.draws, source, generator)  # type: ignore[arg-type]

    def augmentations(self, batch: int, source: tuple[int, ...], numbers: tuple[Tensor, ...]) -> Parameters:
        """One augmentation per sample of a batch of `batch`, shared by neighbors where there are fewer draws."""
        return self.policy.from_numbers(numbers, source).repeat(batch // self.draws)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ViewPlan:
    """The views of a step, and which of them each loss looks at.

    `siamese` and `chunked` are positions in `views`: two for the Siamese loss, two for the equivariance loss (or none).
    If `steered`, the coordinates of the augmentations of the chunked views are wanted, too.
    """

    views: tuple[View, ...]
    siamese: tuple[int, ...]
    chunked: tuple[int, ...]
    steered: bool = False

    def draw(
        self, inputs: Tensor, batch: int, rows: slice, generator: torch.Generator, make: "Make | None" = None
    ) -> list[Tensor]:
        """The views of `inputs`, which are the `rows` of a global batch of `batch` samples, and then the coordinates.

        Augmentations are drawn for the whole batch and the rows cut out, so the result does not depend on how many
        processes share the batch. `make` may be a compiled form of `make_views`.
        """
        numbers = [view.random_numbers(_source(inputs), generator) for view in self.views]
        return (make or make_views)(self, inputs, batch, rows, numbers)


Make = Callable[[ViewPlan, Tensor, int, slice, list[tuple[Tensor, ...]]], list[Tensor]]


def make_views(
    plan: ViewPlan, inputs: Tensor, batch: int, rows: slice, numbers: list[tuple[Tensor, ...]]
) -> list[Tensor]:
    """The views of `plan` that these random numbers stand for, and where it is steered, behind them, a row of
    coordinates per draw for each of the chunked views. Nothing here is random: it can be compiled.
    """
    pairs = zip(plan.views, numbers, strict=True)
    drawn = [view.augmentations(batch, _source(inputs), mine)[rows] for view, mine in pairs]
    views = [apply(inputs, augmentations) for augmentations in drawn]
    return views + [_coordinates(plan.views[i], drawn[i], batch) for i in plan.chunked if plan.steered]


def _coordinates(view: View, augmentations: Parameters, batch: int) -> Tensor:
    """θ of every draw, out of augmentations of the samples that share them."""
    shared_by = min(batch // view.draws, len(augmentations))
    return coordinates(augmentations[::shared_by], getattr(view.policy, "center", 1.0))


def _source(inputs: Tensor) -> tuple[int, ...]:
    return tuple(inputs.shape[2:]) if inputs.ndim == 4 else (inputs.shape[1],)


def four_views(
    policy: ImagePolicy | PointPolicy,
    chunk_policy: ImagePolicy | PointPolicy,
    batch: int,
    chunks: int,
    shared_by: Sharing = "chunk",
) -> ViewPlan:
    """Algorithm 1: two views per sample for the Siamese loss, two views per chunk for the equivariance loss.

    `shared_by="batch"` gives all chunks the same pair of augmentations, which is what the authors' program does.
    """
    single, chunk = View(policy, batch), View(chunk_policy, chunks if shared_by == "chunk" else 1)
    return ViewPlan((single, single, chunk, chunk), siamese=(0, 1), chunked=(2, 3))


def two_views(policy: ImagePolicy | PointPolicy, batch: int, chunks: int, per_chunk: Literal[0, 1, 2]) -> ViewPlan:
    """Two views that serve both losses, at the cost of SimCLR: `per_chunk` of them are drawn per chunk.

    With 2, the equivariance loss is the paper's. With 1, it compares the angles under one augmentation per chunk with
    the angles under one per sample: a noisier target. With 0 there is no equivariance loss: plain SimCLR.
    """
    single, chunk = View(policy, batch), View(policy, chunks)
    views = {0: (single, single), 1: (chunk, single), 2: (chunk, chunk)}[per_chunk]
    return ViewPlan(views, siamese=(0, 1), chunked=(0, 1) if per_chunk else ())


def chunked_views(policy: ImagePolicy | PointPolicy, chunks: int, shared_by: Sharing = "chunk") -> ViewPlan:
    """Two views per chunk and nothing else: the equivariance loss alone."""
    chunk = View(policy, chunks if shared_by == "chunk" else 1)
    return ViewPlan((chunk, chunk), siamese=(), chunked=(0, 1))
