"""The quantities of an evaluation: each with a name, a value, and which direction is better."""

import math
from collections.abc import ItemsView, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.decoding.decode import RECORDED
from care.evaluate.decoding.few_images import images_for_r2
from care.evaluate.decoding.r2 import weighted_units
from care.evaluate.effects.families import ALL
from care.evaluate.evaluation import Evaluation, has_top5, logistic_name, per_image_accuracy, probe_name
from care.evaluate.features.classification import WHITENED
from care.tables import number

Key = tuple[str, str]  # the group of a quantity, and its name
Better = Literal["lower", "higher"]

# The group of quantities of the output that the equivariance loss acts on, whatever its name: the equivariant part of a
# split embedding is compared with the whole embedding of another model, and their dimensions differ.
ACTED_ON = "what the equivariance acts on"
# Likewise for the output that the method, such as InfoNCE, acts on: the invariant part of a split embedding.
CONTRASTED = "what the method acts on"

# Measures of a response, their names, and which direction is better (for a displacement, neither).
RESPONSES: dict[str, tuple[str, Better | None]] = {
    "displacement": ("displacement", None),
    "heldout_ratio": ("held-out ratio", "lower"),
    "unexplained": ("unexplained variance", "lower"),
    "heldout_linear": ("held-out ratio, any linear map", "lower"),
    "composition_error": ("composition error", "lower"),
    "gamma": ("γ_f", "lower"),
    "wahba": ("W_f", "lower"),
    "gram_error": ("Gram error", "lower"),
    "cosine_variance": ("variance of cos(f(x), f(ax))", "lower"),
}
R2 = "R² of"  # how the names of all R² begin
BY_FAMILY = ("heldout_ratio", "unexplained", "composition_error")  # also compared family by family
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
    """A value and, if known, the values of the `units` whose mean it is: images, augmentations or few-shot tasks.

    Augmentations and tasks share the images that they are measured on, so their spread does not say how far the value
    is from that of other images. `images` has what every image adds to it, if known. `group` is the output that was
    measured, with embeddings of this `dimension`, or "classes".
    """

    group: str
    name: str
    value: float | None
    better: Better | None
    units: Float[Tensor, " n"] | None = None
    percent: bool = False
    dimension: int | None = None
    over: Literal["images", "augmentations", "tasks"] = "images"
    images: Float[Tensor, " images"] | None = None

    def __str__(self) -> str:
        if self.value is None or math.isnan(self.value):
            return "–"
        return f"{100 * self.value:.2f} %" if self.percent else number(self.value)


def quantities(evaluation: Evaluation) -> list[Quantity]:
    """All quantities of an evaluation, in the order of the table."""
    return [*_classes(evaluation), *(q for output in evaluation.outputs for q in _of_output(evaluation, output))]


def precise(found: Iterable[Quantity], images: int) -> list[Quantity]:
    """The quantities without R² if there are fewer images than `care evaluate` needs to print it."""
    return [q for q in found if images >= images_for_r2() or not q.name.startswith(R2)]


def acted_on(evaluation: Evaluation) -> list[Quantity]:
    """The quantities of the output that the equivariance loss acts on, in the group `ACTED_ON`."""
    return [replace(q, group=ACTED_ON) for q in _of_output(evaluation, evaluation.equivariant_output)]


def contrasted(evaluation: Evaluation) -> list[Quantity]:
    """The quantities of the output that the method acts on, in the group `CONTRASTED`."""
    return [replace(q, group=CONTRASTED) for q in _of_output(evaluation, evaluation.invariant_output)]


def find_quantity(evaluation: Evaluation, group: str, name: str) -> Quantity | None:
    """The quantity of this group and name, if it was measured."""
    found = {ACTED_ON: acted_on, CONTRASTED: contrasted}.get(group, quantities)(evaluation)
    return next((q for q in found if (q.group, q.name) == (group, name)), None)


def _of_output(evaluation: Evaluation, output: str) -> list[Quantity]:
    parts = (_neighbors, _responses, _predictions, _retrieval, _decoding)
    dimension = evaluation.record["measurements"][output]["dimension"]
    return [replace(q, dimension=dimension) for part in parts for q in part(evaluation, output)]


def _classes(evaluation: Evaluation) -> Iterator[Quantity]:
    record = evaluation.record
    if record["logistic"] is not None:
        accuracy, units = record["logistic"]["accuracy"], per_image_accuracy(evaluation, "logistic")
        yield Quantity("classes", logistic_name(record["logistic"]), accuracy, "higher", units, percent=True)
    if record["probe"] is not None:
        top1, top5 = record["probe"]["mean"], sum(record["probe"]["top5"]) / len(record["probe"]["top5"])
        tops = (("top-1", top1, "probe"), ("top-5", top5, "probe5"))
        for name, top, array in tops if has_top5(record) else tops[:1]:
            units = per_image_accuracy(evaluation, array)
            yield Quantity("classes", f"{probe_name(record)}, {name}", top, "higher", units, percent=True)
    for words, recorded, array in (("", "knn", ""), (f", {WHITENED}", "knn_whitened", f"/{WHITENED}")):
        for k, accuracy in (record.get(recorded) or {}).items():  # older records have no whitened features
            units = per_image_accuracy(evaluation, f"knn{k}{array}")
            yield Quantity("classes", f"kNN, k = {k}{words}", accuracy, "higher", units, percent=True)


def _neighbors(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    """kNN by output; the backbone's is in the group "classes", and older records have none."""
    for k, accuracy in (evaluation.record.get("knn_outputs") or {}).get(output, {}).items():
        units = per_image_accuracy(evaluation, f"knn{k}/{output}")
        yield Quantity(output, f"kNN, k = {k}", accuracy, "higher", units, percent=True)


def _responses(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    measured = evaluation.measurement(output)
    families = measured.families
    if measured.length is not None:
        yield Quantity(output, "length", measured.length, None)
    if measured.strength is not None:
        yield Quantity(output, "strength of ω", measured.strength, None)
    shown = [(measure, ALL) for measure in RESPONSES]
    shown += [(measure, family) for measure in BY_FAMILY for family in families if family != ALL]
    for measure, family in shown:
        (name, better), spread = RESPONSES[measure], getattr(families[family], measure)
        if spread.values:
            title, units = name if family == ALL else f"{name}, {family}", torch.tensor(spread.values)
            images = evaluation.arrays.get(f"images/{output}/{family}/{measure}")
            yield Quantity(output, title, spread.mean, better, units, over="augmentations", images=images)


def _predictions(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    for where, by in evaluation.record["prediction"].items():
        of, _, family = where.partition(" ")
        for measure, (name, better) in PREDICTIONS.items():
            if of == output and by["rotation"][measure] is not None:
                title, value = f"{name} by rotation, {family}", by["rotation"][measure]
                units, images = (evaluation.arrays.get(f"{of}prediction/{where}/{measure}") for of in ("", "images/"))
                yield Quantity(output, title, value, better, units, over="augmentations", images=images)


def _retrieval(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    record: dict[str, Any] = (evaluation.record["retrieval"] or {}).get(output, {})
    for measure, (name, better) in RETRIEVALS.items():
        if record.get(measure) is not None:
            units = evaluation.arrays.get(f"retrieval/{output}/{measure}")
            weight = evaluation.arrays.get(f"retrieval/{output}/{measure}_weight")
            if units is not None and weight is not None:
                units = weighted_units(units, weight)
            yield Quantity(output, name, record[measure], better, units)


def _decoding(evaluation: Evaluation, output: str) -> Iterator[Quantity]:
    for decoder, recorded in RECORDED.items():
        for name, r2 in _r2(evaluation, recorded, output):
            units = evaluation.arrays.get(f"decoding/{decoder}/{output}/{name}")
            yield Quantity(output, f"{R2} {name}, {decoder}", r2, "higher", units)
    for name, r2 in _r2(evaluation, "factors", output):
        yield Quantity(output, f"{R2} the factor {name}", r2, "higher")


def _r2(evaluation: Evaluation, recorded: str, output: str) -> ItemsView[str, float | None]:
    """R² by target; empty for records older than the decoder."""
    found: dict[str, float | None] = (evaluation.record.get(recorded) or {}).get(output, {})
    return found.items()
