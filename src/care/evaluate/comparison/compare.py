"""Compare evaluations side by side: one table, and which differences are certain."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.cells import cell_len

from care.evaluate.comparison.paired import LEVEL, Difference, holm_adjusted, paired_difference, two_way_difference
from care.evaluate.comparison.quantities import Better, Key, Quantity, acted_on, precise, quantities
from care.evaluate.decoding.few_images import too_few_images
from care.evaluate.evaluation import Evaluation
from care.tables import WIDE, columns, text_table, wrapped

YES, UNDECIDED = "yes", "undecided"
ROWS_OF_A_FIGURE = 40
FEWEST = 5  # images or augmentations: three draws of a blur can be almost equal, and say nothing about others


def compare_evaluations(
    evaluations: Mapping[str, Evaluation], more: Mapping[str, Sequence[Quantity]] | None = None
) -> "Comparison":
    """Compare each model with the first, on the same images, augmentations and output.

    If the equivariance loss does not act on the same output in all models, the quantities of that output get additional
    rows. Evaluations with different settings cannot be paired: the ValueError names the differences. `more` holds
    further quantities by model, such as `transfer_quantities`; with these, there may be no evaluations at all.
    """
    check_paired(evaluations)
    more = more or {}
    mixed = len({evaluation.equivariant_output for evaluation in evaluations.values()}) > 1
    measured = {name: [*quantities(e), *(acted_on(e) if mixed else ())] for name, e in evaluations.items()}
    known = {
        name: [*precise(found, evaluations[name].record["about"]["test_images"]), *more.get(name, ())]
        for name, found in measured.items()
    }
    found = {name: {(q.group, q.name): q for q in by_model} for name, by_model in (known or more).items()}
    base, *others = found
    pairs = [(name, key) for name in others for key in found[base] if _paired(found[base], found[name], key)]
    differences: dict[str, dict[Key, Difference]] = {name: {} for name in others}
    for name, key in pairs:
        differences[name][key] = _difference(found[base][key], found[name][key])
    about = evaluations[base].record["about"] if evaluations else {"test_images": 0, "augmentations": 0}
    return Comparison(found, differences, about["test_images"], about["augmentations"])


def check_paired(evaluations: Mapping[str, Evaluation]) -> None:
    """ValueError if the evaluations differ in images, augmentations or the kind of probes."""
    for other in evaluations.values():
        if different := other.unlike(next(iter(evaluations.values()))):
            raise ValueError(f"these evaluations were made with different settings: {'; '.join(different)}")


def _paired(mine: Mapping[Key, Quantity], theirs: Mapping[Key, Quantity], key: Key) -> bool:
    a, b = mine[key], theirs.get(key)
    if b is None or a.units is None or b.units is None:
        return False
    return len(a.units) > 1 or (a.images is not None and b.images is not None)


def _difference(a: Quantity, b: Quantity) -> Difference:
    """b − a over the units, and over the images that augmentations share, if known.

    Without these, the interval is for the same images: it has no p, as it does not say what holds for others.
    """
    assert a.units is not None  # they are paired
    assert b.units is not None
    if a.over == "augmentations" and a.images is not None and b.images is not None:
        return two_way_difference(a.units, b.units, a.images, b.images, fewest=FEWEST)
    found = paired_difference(a.units, b.units, fewest=FEWEST)
    return found if a.over == "images" else replace(found, p=math.nan)


@dataclass(frozen=True)
class Comparison:
    """Quantities by model, and the paired differences of every model from the first.

    `images` and `augmentations` (per family) are their numbers; 0 without evaluations.
    """

    models: Mapping[str, Mapping[Key, Quantity]]
    differences: Mapping[str, Mapping[Key, Difference]]
    images: int
    augmentations: int

    def adjusted(self) -> dict[tuple[str, Key], float]:
        """Holm's p-value of every difference that has an interval, by model and quantity.

        It is corrected for all models and quantities of the comparison.
        """
        p = {(name, key): d.p for name, by in self.differences.items() for key, d in by.items() if not math.isnan(d.p)}
        return dict(zip(p, holm_adjusted(list(p.values())), strict=True))

    def verdicts(self) -> dict[tuple[str, Key], str]:
        """ "yes" where a difference is certain after the correction, else "undecided"; by model and quantity."""
        return {where: YES if p < 1 - LEVEL else UNDECIDED for where, p in self.adjusted().items()}

    def table(self, width: int | None = None) -> str:
        """A row per quantity; for every model but the first its difference with its 95 % interval, and the verdict.

        `width` is in columns, by default the terminal's; if one table does not fit, each output gets its own.
        """
        first, *others = self.models
        groups = {group: self._rows(group) for group in dict.fromkeys(key[0] for key in self.models[first])}
        groups = {group: rows for group, rows in groups.items() if self._shared(group)}
        header = ["", first, *(title for name in others for title in (name, "difference [95 %]", "different?"))]
        title, room = f"compared with {first}", width or columns()
        whole = text_table(title, header, [row for rows in groups.values() for row in rows], WIDE)
        if max(map(cell_len, whole.splitlines())) > room:
            whole = "\n".join([title, *(text_table("", header, rows, room) for rows in groups.values())])
        return f"{whole}\n\n" + "\n".join(wrapped(note, room) for note in self._notes())

    def _rows(self, group: str) -> list[Sequence[str]]:
        """A title for the output, with the dimension of each model, and a row per quantity."""
        first, *others = self.models
        verdicts = self.verdicts()
        cells = [cell for name in others for cell in (_dimension(self.models[name], group), "", "")]
        rows: list[Sequence[str]] = [[group.upper(), _dimension(self.models[first], group), *cells]]
        for key, quantity in self.models[first].items():
            if key[0] == group:
                cells = [cell for name in others for cell in self._cells(name, key, verdicts)]
                rows.append([f"  {key[1]}{_arrow(quantity)}", str(quantity), *cells])
        return rows

    def _shared(self, group: str) -> bool:
        """Whether the first model and any other one have quantities of this group."""
        having = [name for name, found in self.models.items() if any(key[0] == group for key in found)]
        return len(having) > 1 and next(iter(self.models)) in having

    def _cells(self, model: str, key: Key, verdicts: Mapping[tuple[str, Key], str]) -> tuple[str, str, str]:
        quantity, difference = self.models[model].get(key), self.differences[model].get(key)
        if quantity is None or difference is None or math.isnan(difference.difference):
            return str(quantity or "–"), "", ""
        scale, unit = (100, " points") if quantity.percent else (1, "")
        numbers = (scale * x for x in (difference.difference, difference.low, difference.high))
        middle, low, high = (f"{x:+.3g}" for x in numbers)
        none = math.isnan(difference.low) or difference.low == difference.high == 0  # no two values differ
        interval = "" if none else f" [{low}, {high}]"
        missing = f", {difference.dropped} left out" if difference.dropped else ""
        verdict = f"{verdicts[model, key]}, one seed" if (model, key) in verdicts else ""
        return str(quantity), f"{middle}{unit}{interval}{missing}", verdict

    def _notes(self) -> list[str]:
        """Notes that explain "yes", and why some rows or intervals are missing."""
        all_of_them = [d for by in self.differences.values() for d in by.values()]
        both = f", or over them and the {self.augmentations:,} augmentations (per family) together"
        drawn = f"{self.images:,} test images{both}" if self.images else "test images"
        notes = [
            f"yes: p < 0.05 after Holm's correction for the {len(self.adjusted())} differences of this table; each "
            f"interval is Student's over the {drawn}, for that difference alone and one pretraining seed per model"
        ]
        if any(math.isnan(d.p) and not math.isnan(d.low) for d in all_of_them):
            notes.append(
                "an interval without a verdict: over augmentations or few-shot tasks alone, on these test images"
            )
        if any(math.isnan(d.low) for d in all_of_them):
            notes.append(
                f"no interval: fewer than {FEWEST} images or augmentations, or they all differ by the same amount"
            )
        if any(d.dropped for d in all_of_them):
            notes.append("left out: images or augmentations that have no value for one of the models")
        return [*notes, *self.left_out()]

    def left_out(self) -> list[str]:
        """A sentence for every output that the first model has and no other, or vice versa, and one for missing R²."""
        first = next(iter(self.models))
        groups = {group: None for found in self.models.values() for group, _ in found}
        few = too_few_images("R²", self.images) if self.images else None
        sentences = [] if few is None else [few]
        for group in groups:
            having = [name for name, found in self.models.items() if any(key[0] == group for key in found)]
            if not self._shared(group):
                whose = "no other model has it" if first in having else f"{first} does not have it"
                sentences.append(f"no rows for {group} of {', '.join(having)}: {whose}")
        return sentences

    def rows(self, model: str) -> list[tuple[str, float, float, float, Better, bool]]:
        """The rows for `differences_figure`: all quantities with a better direction, and whether they are certain.

        If there are more than a page can hold, only certain differences and accuracies.
        """
        found, verdicts, first = [], self.verdicts(), []
        for (group, name), d in self.differences[model].items():
            better, certain = self.models[model][group, name].better, verdicts.get((model, (group, name))) == YES
            if better is not None:
                title = name if group == "classes" else f"{name}, {group}"
                found.append((title, d.difference, d.low, d.high, better, certain))
                first += found[-1:] if certain or self.models[model][group, name].percent else []
        return found if len(found) <= ROWS_OF_A_FIGURE else first or found[:ROWS_OF_A_FIGURE]

    def to_json(self) -> dict[str, Any]:
        """Values by model and differences from the first one, with Holm's p-values and verdicts."""
        values = {model: [_value(q) for q in found.values()] for model, found in self.models.items()}
        differences = {model: list(self._differences(model)) for model in self.differences}
        return {
            "first": next(iter(self.models)),
            "values": values,
            "differences": differences,
            "left_out": self.left_out(),
        }

    def _differences(self, model: str) -> Iterator[dict[str, Any]]:
        adjusted, verdicts = self.adjusted(), self.verdicts()
        for key, d in self.differences[model].items():
            numbers = {name: _known(value) for name, value in asdict(d).items()}
            corrected = {"adjusted_p": adjusted.get((model, key)), "different": verdicts.get((model, key))}
            yield {"where": key[0], "name": key[1], **numbers, **corrected}


def _value(q: Quantity) -> dict[str, Any]:
    where = {"where": q.group, "dimension": q.dimension, "name": q.name}
    return {**where, "value": _known(q.value), "better": q.better}


def _dimension(found: Mapping[Key, Quantity], group: str) -> str:
    dimension = next((q.dimension for (where, _), q in found.items() if where == group), None)
    return "" if dimension is None else f"d = {dimension}"


def _arrow(quantity: Quantity) -> str:
    return {"lower": " ↓", "higher": " ↑", None: ""}[quantity.better]


def _known(value: float | int | None) -> float | int | None:
    return None if value is None or math.isnan(value) else value
