"""Statistics for fitting R(θ): embeddings of a frozen model with and without augmentation, computed once.

For every rotation R, ‖R F − F_a‖² = ‖F‖² + ‖F_a‖² − 2 ⟨R, F_aᵀ F⟩. The d × d matrices C_a = F_aᵀ F / n, one per
augmentation, are therefore sufficient for fitting rotations: the images themselves are not kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.augment import ImagePolicy, Parameters, coordinate_names, coordinates
from care.evaluate.effects.families import Family
from care.evaluate.embedder import Embedder
from care.progress import ProgressCallback, silent
from care.randomness import derive, generator_for

RANK = 64  # the dimension of the subspace that is rotated, at most
KEPT = 2**24  # entries of embeddings kept for predictors that need them
BASIS_AUGMENTATIONS = 10  # augmentations that the basis is computed from


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """V augmentations of n images at one `output` of a model: coordinates θ, covariances C_a in `basis`, and squared
    displacements ‖F_a − F‖² / n.

    `families` has the family of each augmentation. `F` [n, d] and `F_kept`, the rows `kept` [V, s] of every F_a, are
    for predictors other than rotations. Everything is on the CPU.
    """

    output: str
    names: tuple[str, ...]
    center: float
    families: tuple[str, ...]
    theta: Float[Tensor, "V k"]
    covariance: Float[Tensor, "V m m"]
    squared_displacement: Float[Tensor, " V"]
    basis: Float[Tensor, "d m"]
    F: Float[Tensor, "n d"]
    kept: Int[Tensor, "V s"]
    F_kept: Float[Tensor, "V s d"]


def statistics_of(
    embedder: Embedder,
    output: str,
    families: Sequence[Family],
    rank: int = RANK,
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> FitStatistics:
    """Embed the embedder's samples under every augmentation of `families`; project on at most `rank` directions."""
    F = embedder.points(embedder.clean())[output]
    drawn = [family.draw(embedder.samples.input_shape, derive(seed, "steer")) for family in families]
    augmentations, center = Parameters.concatenate(drawn), center_of(embedder)
    kept = _rows(len(augmentations), F, seed)

    def embedded(i: int) -> Float[Tensor, "n d"]:
        return embedder.points(embedder.augmented(augmentations[i]))[output]

    first = {i: embedded(i) for i in _rows_of_basis(len(augmentations))} if rank < F.shape[1] else {}
    basis = _basis(F, list(first.values()), rank)
    covariance, squared_displacement, F_kept = [], [], []
    for i, rows in enumerate(kept.to(F.device)):
        F_a = first.pop(i) if i in first else embedded(i)
        covariance.append(((F_a @ basis).mT @ (F @ basis) / len(F)).cpu())
        squared_displacement.append((F_a - F).square().sum(1).mean().cpu())
        F_kept.append(F_a[rows].cpu())
        progress("augmentations to fit", i + 1, len(kept))
    return FitStatistics(
        output=output,
        names=coordinate_names(augmentations),
        center=center,
        families=tuple(family.name for family, a in zip(families, drawn, strict=True) for _ in range(len(a))),
        theta=coordinates(augmentations, center),
        covariance=torch.stack(covariance),
        squared_displacement=torch.stack(squared_displacement),
        basis=basis.cpu(),
        F=F.cpu(),
        kept=kept,
        F_kept=torch.stack(F_kept),
    )


def center_of(embedder: Embedder) -> float:
    """The side of the un-augmented view, as a fraction of the picture's shorter side."""
    return embedder.policy.center if isinstance(embedder.policy, ImagePolicy) else 1.0


def _rows_of_basis(V: int) -> range:
    """The augmentations that the basis is computed from."""
    return range(0, V, 1 + V // BASIS_AUGMENTATIONS)


def _basis(F: Float[Tensor, "n d"], augmented: Sequence[Float[Tensor, "n d"]], rank: int) -> Float[Tensor, "d m"]:
    """The identity, or the `rank` principal directions of embeddings with and without augmentation, not centered.

    Rotations are about the origin: in a basis orthogonal to the mean, no rotation could move the mean.
    """
    d = F.shape[1]
    if rank >= d:
        return torch.eye(d, device=F.device, dtype=F.dtype)
    moment = F.mT @ F
    for F_a in augmented:
        moment = moment + F_a.mT @ F_a / BASIS_AUGMENTATIONS
    return torch.linalg.eigh(moment.double()).eigenvectors[:, -rank:].to(F.dtype)


def _rows(V: int, F: Float[Tensor, "n d"], seed: int) -> Int[Tensor, "V s"]:
    """The images kept for every augmentation: drawn anew for each, as many as `KEPT` allows."""
    n, d = F.shape
    count = max(1, min(n, KEPT // (V * d)))
    generator = generator_for("cpu", seed, "steer", "kept")
    return torch.stack([torch.randperm(n, generator=generator)[:count] for _ in range(V)])
