"""The quantities of an evaluation: each with a name, a value, and which direction is better."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.effects.families import ALL
from care.evaluate.evaluation import Evaluation, logistic_name, per_image_accuracy, probe_name
from care.evaluate.observer import EQUIVARIANT
from care.tables import number

Better = Literal["lower", "higher"]

# Measures of a response, what they are called, and which direction is better. Of a displacement, neither is.
RESPONSES: dict[str, tuple[str, Better | None]] = {
    "displacement": ("displacement", None),
    "heldout_ratio": ("held-out ratio", "lower"),
    "one_minus_r2": ("1 − R²", "lower"),
    "heldout_ratio_o": ("held-out ratio, O(d)", "lower"),
    "heldout_linear": ("held-out ratio, any linear map", "lower"),
    "composition_error": ("composition error", "lower"),
    "gamma": ("γ_f", "lower"),
    "wahba": ("W_f", "lower"),
    "gram_error": ("Gram error", "lower"),
    "cosine_variance": ("variance of cos(f(x), f(ax))", "lower"),
}
BY_FAMILY = ("heldout_ratio", "one_minus_r2", "composition_error")  # those that are read family by family, too
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
        found += [*_retrieval(evaluation, output), *_decoding(evaluation, output)]
    return found


def find_quantity(evaluation: Evaluation, group: str, name: str) -> Quantity | None:
    """The quantity of this group and name, if it was measured.

    The group "equivariant" stands for what the equivariance loss acts on: without a split embedding, all of it.
    """
    where = evaluation.equivariant_output if group == EQUIVARIANT else group
    return next((q for q in quantities(evaluation) if (q.group, q.name) == (where, name)), None)


def _classes(evaluation: Evaluation) -> Iterator[Quantity]:
    record = evaluation.record
    if record["logistic"] is not None:
        accuracy, units = record["logistic"]["accuracy"], per_image_accuracy(evaluation, "logistic")
        yield Quantity("classes", logistic_name(record["logistic"]), accuracy, "higher", units, percent=True)
    if record["probe"] is not None:
        top1, top5 = record["probe"]["mean"], sum(record["probe"]["top5"]) / len(record["probe"]["top5"])
        for name, top, array in (("top-1", top1, "probe"), ("top-5", top5, "probe5")):
            units = per_image_accuracy(evaluation, array)
            yield Quantity("classes", f"{probe_name(record)}, {name}", top, "higher", units, percent=True)
    for k, accuracy in (record["knn"] or {}).items():
        units = per_image_accuracy(evaluation, f"knn{k}")
        yield Quantity("classes", f"kNN, k = {k}", accuracy, "higher", units, percent=True)


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


def _decoding(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    for kind, what in (("decoding", "R² of {}"), ("factors", "R² of the factor {}")):
        for name, r2 in ((evaluation.record[kind] or {}).get(output, {})).items():
            yield Quantity(output, what.format(name), r2, "higher")
