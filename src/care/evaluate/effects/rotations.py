"""Do augmentations act on embeddings as rotations? The geometry of every output, predictions of views, and cosines."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.decoding.targets import parameter_targets
from care.evaluate.effects.effect import Effect
from care.evaluate.effects.families import ALL, families_of
from care.evaluate.effects.measure import measure_outputs
from care.evaluate.effects.measurement import Measurement
from care.evaluate.effects.prediction import Prediction, chance, predict_by_identity, prediction_measures
from care.evaluate.effects.projections import with_projections
from care.evaluate.embedder import EMBEDDING, Embedder, Embeddings, output_in_form
from care.progress import ProgressCallback

PREDICTED = (ALL, "color")  # the families whose views are ranked
IMAGES = 500  # images whose views are ranked: every view is compared with every view of every image
QUANTILES = 400

Predictions = dict[tuple[str, str], dict[str, Prediction]]  # by output and family, and by the map that predicts


class EffectCollector:
    """Collects, of every effect, the cosines of all images and the predicted views of the first few."""

    def __init__(self, F: Embeddings) -> None:
        self.F = F
        self.cosines: dict[str, list[Tensor]] = defaultdict(list)
        self.positives: dict[str, list[Tensor]] = defaultdict(list)
        self.views: dict[tuple[str, str], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        self.before: dict[str, Tensor] = {}

    def __call__(self, output: str, family: str, i: int, effect: Effect) -> None:
        """Called by `measure_outputs`."""
        F = self.F[output]
        if family == ALL:
            self.cosines[output].append(_cosine(F, effect.F_a))
            if i % 2:
                self.positives[output].append(_cosine(self.before[output], effect.F_a))
            self.before[output] = effect.F_a
        if family in PREDICTED:
            predicted = effect.rotated(effect.R)
            self.views[output, family].append((predicted[:IMAGES], effect.F_a[:IMAGES]))


def evaluate_effects(
    embedder: Embedder,
    clean: Embeddings,
    augmentations: int,
    seed: int,
    progress: ProgressCallback,
    forms: Sequence[str] = (),
    projections: Sequence[int] = (),
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(The record, the arrays) of every output: its measurement, how well rotations predict views, cosines of pairs.

    The embedding is also measured in the geometry of each of `forms`, and projected on `projections` directions.
    """
    embedder = embedder.also_with(forms)
    clean = {**clean, **{output_in_form(form): clean[EMBEDDING] for form in forms}}
    embedder, clean = with_projections(embedder, clean, projections, seed)
    collected = EffectCollector(embedder.points(clean))
    measured = measure_outputs(embedder, clean, augmentations, True, seed, progress, collected)
    predicted = _predictions(embedder, collected, augmentations, seed)
    record = {
        "measurements": {output: m.to_json() for output, m in measured.items()},
        "prediction": {
            f"{output} {family}": {name: prediction.to_json() for name, prediction in by.items()}
            for (output, family), by in predicted.items()
        },
        "positive_cosine": {output: torch.cat(c).mean().item() for output, c in collected.positives.items()},
        "positive_quantiles": {output: quantiles(torch.cat(c)) for output, c in collected.positives.items()},
    }
    return record, _arrays(collected, measured, predicted)


def _arrays(
    collected: EffectCollector, measured: Mapping[str, Measurement], predicted: Predictions
) -> dict[str, Tensor]:
    """The data for figures and paired comparisons: cosines, and measures by image and by augmentation."""
    arrays = {f"cosine/{output}": torch.stack(c).float() for output, c in collected.cosines.items()}
    arrays |= {f"positive/{output}": torch.cat(c).float() for output, c in collected.positives.items()}
    for output, m in measured.items():
        for family, measures in m.families.items():
            arrays |= {f"images/{output}/{family}/{name}": x.float() for name, x in measures.per_image.items()}
    for (output, family), by in predicted.items():
        where, rotation = f"prediction/{output} {family}", by["rotation"]
        arrays |= {f"{where}/{name}": values for name, values in rotation.per_augmentation.items()}
        arrays |= {f"images/{where}/{name}": values for name, values in rotation.per_image.items()}
    return arrays


def quantiles(values: Float[Tensor, " n"]) -> list[float]:
    """QUANTILES representative values for a histogram: the medians of as many equal parts, in order."""
    middles = (torch.arange(QUANTILES, device=values.device) + 0.5) / QUANTILES * len(values)
    return values.sort().values[middles.long()].tolist()


def _predictions(embedder: Embedder, collected: EffectCollector, augmentations: int, seed: int) -> Predictions:
    """(output, family) → prediction by cross-fitted rotations, by the identity, and chance."""
    found = {}
    for family in families_of(embedder.policy, augmentations):
        targets = parameter_targets(family.draw(embedder.samples.input_shape, seed))
        theta = torch.cat([t.values for t in targets.values()], dim=1).to(embedder.device) if targets else None
        for (output, name), views in collected.views.items():
            if name != family.name or len(views) < 2:
                continue
            predicted, F_a = (torch.stack(column) for column in zip(*views, strict=True))
            F = collected.F[output][:IMAGES]
            found[output, name] = {
                "rotation": prediction_measures(predicted, F, F_a, theta),
                "identity": prediction_measures(predict_by_identity(F, len(F_a)), F, F_a, theta),
                "chance": chance(len(F_a), theta),
            }
    return found


def _cosine(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    return torch.nn.functional.cosine_similarity(a, b)
