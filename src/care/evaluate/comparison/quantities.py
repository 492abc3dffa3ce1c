"""What a reader looks up in an evaluation: quantities with a name, a value, and a direction that is better."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.effects.families import ALL
from care.evaluate.evaluation import Evaluation, rightly
from care.tables import number

Better = Literal["lower", "higher"]

# Measures of a response, what they are called, and which direction is better. How far an embedding moves is neither.
RESPONSES: dict[str, tuple[str, Better | None]] = {
    "invariance": ("moved by", None),
    "heldout_ratio": ("held-out ratio", "lower"),
    "unexplained": ("unexplained variance", "lower"),
    "heldout_ratio_o": ("held-out ratio, O(d)", "lower"),
    "heldout_linear": ("held-out ratio, any linear map", "lower"),
    "composition": ("composition defect", "lower"),
    "gamma": ("γ_f", "lower"),
    "wahba": ("W_f", "lower"),
    "gram_defect": ("Gram defect", "lower"),
    "cosine_variance": ("variance of cos(f(x), f(ax))", "lower"),
}
BY_FAMILY = ("heldout_ratio", "unexplained", "composition")  # those that are read family by family, too
RETRIEVALS: dict[str, tuple[str, Better]] = {
    "hue_distance": ("hue distance of neighbors", "lower"),
    "overlap": ("overlap of neighbors", "lower"),
    "class_precision": ("class precision of neighbors", "higher"),
}
PREDICTIONS: dict[str, tuple[str, Better]] = {
    "mrr": ("MRR", "higher"),
    "hit_at_1": ("H@1", "higher"),
    "hit_at_5": ("H@5", "higher"),
    "parameter_error": ("PRE", "lower"),
}


@dataclass(frozen=True, eq=False)
class Quantity:
    """A value and, where there are any, the values of the images or augmentations it is the mean of."""

    group: str
    name: str
    value: float | None
    better: Better | None
    units: Float[Tensor, " n"] | None = None
    percent: bool = False

    def __str__(self) -> str:
        if self.value is None or math.isnan(self.value):
            return "–"
        return f"{100 * self.value:.2f} %" if self.percent else number(self.value)


def quantities(evaluation: Evaluation) -> list[Quantity]:
    """Everything that was measured, in the order in which it is read."""
    found = [*_classes(evaluation)]
    for output in evaluation.outputs:
        found += [*_responses(evaluation, output), *_predictions(evaluation, output)]
        found += [*_retrieval(evaluation, output), *_sensitivity(evaluation, output)]
    return found


def _classes(evaluation: Evaluation) -> Iterator[Quantity]:
    record = evaluation.record
    if record["probe"] is not None:
        top1, top5 = record["probe"]["mean"], sum(record["probe"]["top5"]) / len(record["probe"]["top5"])
        yield Quantity("classes", "linear probe, top-1", top1, "higher", rightly(evaluation, "probe"), percent=True)
        yield Quantity("classes", "linear probe, top-5", top5, "higher", rightly(evaluation, "probe5"), percent=True)
    if record["logistic"] is not None:
        accuracy, units = record["logistic"]["accuracy"], rightly(evaluation, "logistic")
        yield Quantity("classes", "logistic regression", accuracy, "higher", units, percent=True)
    for k, accuracy in (record["knn"] or {}).items():
        yield Quantity("classes", f"kNN, k = {k}", accuracy, "higher", rightly(evaluation, f"knn{k}"), percent=True)


def _responses(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    measured = evaluation.measurement(output)
    families = measured.families
    if measured.length is not None:
        yield Quantity(output, "length", measured.length, None)
    if measured.strength is not None:
        yield Quantity(output, "strength of ω", measured.strength, None)
    for measure, (name, better) in RESPONSES.items():
        spread = getattr(families[ALL], measure)
        if spread.values:
            yield Quantity(output, name, spread.mean, better, torch.tensor(spread.values))
    for measure, family in itertools.product(BY_FAMILY, (family for family in families if family != ALL)):
        (name, better), spread = RESPONSES[measure], getattr(families[family], measure)
        if spread.values:
            yield Quantity(output, f"{name}, {family}", spread.mean, better, torch.tensor(spread.values))


def _predictions(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    for where, by in evaluation.record["prediction"].items():
        of, _, family = where.partition(" ")
        for measure, (name, better) in PREDICTIONS.items():
            if of == output and by["rotation"][measure] is not None:
                units = evaluation.arrays.get(f"prediction/{where}/{measure}")
                yield Quantity(output, f"{name} by rotation, {family}", by["rotation"][measure], better, units)


def _retrieval(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    record: dict[str, Any] = (evaluation.record["retrieval"] or {}).get(output, {})
    for measure, (name, better) in RETRIEVALS.items():
        if record.get(measure) is not None:
            units = evaluation.arrays.get(f"retrieval/{output}/{measure}")
            weight = evaluation.arrays.get(f"retrieval/{output}/{measure}_weight")
            if units is not None and weight is not None:
                # The mean of these is the weighted mean, and they vary around it, to first order, as it does.
                units = record[measure] + weight * (units - record[measure]) / weight.mean()
            yield Quantity(output, name, record[measure], better, units)


def _sensitivity(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    for kind, what in (("sensitivity", "R² of {}"), ("factors", "R² of the factor {}")):
        for name, r2 in ((evaluation.record[kind] or {}).get(output, {})).items():
            yield Quantity(output, what.format(name), r2, "higher")
