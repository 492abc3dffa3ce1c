"""Evaluations side by side: one table, and which differences are significant."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from care.evaluate.comparison.bootstrap import FEWEST, Difference, paired_difference
from care.evaluate.comparison.quantities import Better, Quantity, quantities
from care.evaluate.effects.families import Watch
from care.evaluate.evaluation import Evaluation
from care.tables import text_table

Key = tuple[str, str]  # where a quantity was measured, and its name


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    watch: Watch | None = None,
    more: Mapping[str, Sequence[Quantity]] | None = None,
) -> "Comparison":
    """Each model against the first, on the images and augmentations they share.

    Evaluations that were not made alike cannot be paired: ValueError says in what they differ. `more` has further
    quantities of the models, such as `transfer_quantities`; with these there may be no evaluations at all.
    """
    check_paired(evaluations)
    known = {name: quantities(one) for name, one in evaluations.items()}
    names = evaluations or more or {}
    found = {
        name: {(q.group, q.name): q for q in [*known.get(name, ()), *(more or {}).get(name, ())]} for name in names
    }
    base = next(iter(found))
    pairs = [
        (name, key) for name in found if name != base for key in found[base] if _paired(found[base], found[name], key)
    ]
    differences: dict[str, dict[Key, Difference]] = {name: {} for name in found if name != base}
    for i, (name, key) in enumerate(pairs, start=1):
        differences[name][key] = paired_difference(found[base][key].units, found[name][key].units)  # type: ignore[arg-type]
        if watch is not None:
            watch("bootstrap", i, len(pairs))
    about = evaluations[base].record["about"] if evaluations else {"test_images": 0, "augmentations": 0}
    return Comparison(found, differences, about["test_images"], about["augmentations"])


def check_paired(evaluations: Mapping[str, Evaluation]) -> None:
    """ValueError if the evaluations are not of the same images and augmentations, with probes of one kind."""
    for other in evaluations.values():
        first = next(iter(evaluations.values()))
        if different := other.unlike(first):
            raise ValueError(f"these evaluations were not made alike: {'; '.join(different)}")


def _paired(mine: Mapping[Key, Quantity], theirs: Mapping[Key, Quantity], key: Key) -> bool:
    return key in theirs and mine[key].units is not None and theirs[key].units is not None and len(mine[key].units) > 1  # type: ignore[arg-type]


@dataclass(frozen=True)
class Comparison:
    """Quantities by model, and the paired differences of every model from the first.

    `images` and `augmentations` say how many of them there were, the latter per family; 0 without evaluations.
    """

    models: Mapping[str, Mapping[Key, Quantity]]
    differences: Mapping[str, Mapping[Key, Difference]]
    images: int
    augmentations: int

    def table(self) -> str:
        """A row per quantity; for every model but the first also its difference, with its 95 % interval."""
        first, *others = self.models
        rows: list[Sequence[str]] = []
        group = ""
        for key, quantity in self.models[first].items():
            if key[0] != group:
                group = key[0]
                rows.append([group.upper(), *[""] * (1 + 2 * len(others))])
            cells = [cell for name in others for cell in self._cells(name, key)]
            rows.append([f"  {key[1]}{_arrow(quantity)}", str(quantity), *cells])
        header = ["", first, *(title for name in others for title in (name, "difference [95 %]"))]
        return text_table(f"compared with {first}", header, rows) + self._note()

    def _cells(self, model: str, key: Key) -> tuple[str, str]:
        quantity, difference = self.models[model].get(key), self.differences[model].get(key)
        if quantity is None or difference is None or math.isnan(difference.difference):
            return str(quantity or "–"), ""
        scale, unit = (100, " points") if quantity.percent else (1, "")
        numbers = (scale * x for x in (difference.difference, difference.low, difference.high))
        middle, low, high = (f"{x:+.3g}" for x in numbers)
        interval = "" if math.isnan(difference.low) else f" [{low}, {high}]"
        return str(quantity), f"{middle}{unit}{interval}{' *' if _significant(difference) else ''}"

    def _note(self) -> str:
        """What * means, if there is one, and why some differences have no interval."""
        all_of_them = [d for by in self.differences.values() for d in by.values()]
        drawn = f"{self.images:,} test images or {self.augmentations:,} augmentations (per family)"
        drawn = drawn if self.images else "test images or few-shot tasks"
        notes = [f"* significant: the 95 % interval over the {drawn} excludes 0, for these pretraining seeds"]
        if any(math.isnan(d.low) for d in all_of_them):
            notes.append(f"no interval: fewer than {FEWEST} images or augmentations")
        said = notes if any(map(_significant, all_of_them)) else notes[1:]
        return "\n\n" + "; ".join(said) if said else ""

    def rows(self, model: str) -> list[tuple[str, float, float, float, Better]]:
        """What `differences_figure` draws: the quantities of which one direction is better."""
        found = []
        for (group, name), d in self.differences[model].items():
            better = self.models[model][group, name].better
            if better is not None:
                found.append((name if group == "classes" else f"{group}: {name}", d.difference, d.low, d.high, better))
        return found

    def to_json(self) -> dict[str, Any]:
        """Values by model and differences from the first one."""
        values = {
            model: [
                {"where": q.group, "name": q.name, "value": _known(q.value), "better": q.better} for q in found.values()
            ]
            for model, found in self.models.items()
        }
        differences = {
            model: [
                {"where": k[0], "name": k[1], **{n: _known(v) for n, v in asdict(d).items()}} for k, d in by.items()
            ]
            for model, by in self.differences.items()
        }
        return {"first": next(iter(self.models)), "values": values, "differences": differences}


def _significant(difference: Difference) -> bool:
    return difference.low > 0 or difference.high < 0  # neither, where there is no interval


def _arrow(quantity: Quantity) -> str:
    return {"lower": " ↓", "higher": " ↑", None: ""}[quantity.better]


def _known(value: float | int | None) -> float | int | None:
    return None if value is None or math.isnan(value) else value
