"""Fit R(θ) to some images and measure it on others: what `care steer` does, for any embedder."""

import dataclasses
from dataclasses import dataclass

from care.evaluate.embedder import Embedder
from care.progress import ProgressCallback, silent
from care.steer.canonical import canonicalized_families, measure_canonicalization
from care.steer.families import measured_families, steered_families
from care.steer.fit_statistics import RANK, statistics_of
from care.steer.fitting import fit_rotation
from care.steer.learned_rotation import LearnedRotation
from care.steer.measuring import measure_rotations
from care.steer.predictor import fit_predictor
from care.steer.result import RotationResult

MEASURED = 20  # augmentations per family, at most


@dataclass(frozen=True)
class Steered:
    """R(θ) with what it explains, and the same measures of the rotation that was trained with the encoder, if any."""

    rotation: LearnedRotation
    result: RotationResult
    trained: RotationResult | None

    def __str__(self) -> str:
        return "\n\n".join(str(result) for result in (self.result, self.trained) if result is not None)


def steer_embeddings(
    fitted: Embedder,
    unseen: Embedder,
    output: str,
    title: str,
    *,
    augmentations: int = 40,
    rank: int = RANK,
    products: tuple[tuple[str, str], ...] = (),
    trained: LearnedRotation | None = None,
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> Steered:
    """Fit R(θ) to the images of `fitted`; measure it, a network, and R(θ)ᵀ on those of `unseen`.

    `augmentations` are drawn for each family, and others to measure. `products` of coordinates are added to the
    exponent. `title` names the model in tables and figures.
    """
    policy = fitted.policy
    statistics = statistics_of(fitted, output, steered_families(policy, augmentations), rank, seed, progress)
    rotation = fit_rotation(statistics, seed, progress, products)
    predictor = fit_predictor(statistics, seed, progress)
    rotations = {title: rotation}
    if trained is not None:
        rotations[f"{title}, R(θ) trained with the encoder"] = trained
    families = measured_families(policy, min(MEASURED, augmentations))
    result, *other = measure_rotations(unseen, output, families, rotations, predictor, seed, progress)
    canonicalized = canonicalized_families(policy)
    scores = measure_canonicalization(unseen, output, rotation, canonicalized, seed, progress)
    return Steered(rotation, dataclasses.replace(result, canonicalization=scores), other[0] if other else None)
