"""A reproduction as people read it: a table, figures, and what they say, beside the paper's numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from matplotlib.figure import Figure

from care.evaluate.observer import EQUIVARIANT
from care.reproduce.trial import Outcome
from care.tables import number

Quantity = tuple[str, str]

# Where a quantity is found in an evaluation; those of "equivariant" are of what the equivariance loss acts on, which is
# the whole embedding unless it is split.
PROBE, KNN = ("classes", "linear probe (paper), top-1"), ("classes", "kNN, k = 200")
RATIO, ANY_LINEAR = (EQUIVARIANT, "held-out ratio"), (EQUIVARIANT, "held-out ratio, any linear map")
GAMMA, WAHBA = (EQUIVARIANT, "γ_f"), (EQUIVARIANT, "W_f")
DISPLACEMENT, COMPOSITION = (EQUIVARIANT, "displacement"), (EQUIVARIANT, "composition error")
HUE, HUE_DISTANCE = ("backbone", "R² of hue"), ("backbone", "hue distance of neighbors")
# Titles of columns, and what they show.
COLUMNS: dict[str, Quantity] = {
    "linear probe (paper) %": PROBE,
    "kNN-200 %": KNN,
    "held-out ratio": RATIO,
    "γ_f": GAMMA,
    "W_f": WAHBA,
    "displacement": DISPLACEMENT,
    "R² of hue": HUE,
    "hue distance": HUE_DISTANCE,
}


@dataclass(frozen=True)
class Presentation:
    """A table, figures by name, and sentences that follow from the numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Mapping[str, Figure]
    remarks: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        object.__setattr__(self, "remarks", tuple(dict.fromkeys(self.remarks)))  # what is missing is said once

    def markdown(self) -> str:
        """The table and the sentences, as a README has them."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return table + "".join(f"\n\n{remark}" for remark in self.remarks) + "\n"


def by_label(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The seeds of every label, in the order in which labels come up."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.trial.label, []).append(outcome)
    return found


def values(outcomes: Sequence[Outcome], quantity: Quantity) -> list[float]:
    """A quantity of every seed that has it."""
    found = (outcome.value(*quantity) for outcome in outcomes)
    return [value for value in found if value is not None and math.isfinite(value)]


def mean(outcomes: Sequence[Outcome], quantity: Quantity) -> float:
    """The mean over seeds; NaN if nothing was measured."""
    found = values(outcomes, quantity)
    return fmean(found) if found else math.nan


def cell(outcomes: Sequence[Outcome], quantity: Quantity) -> str:
    """Mean ± standard deviation over seeds; of one seed just the value."""
    found = values(outcomes, quantity)
    if not found:
        return "–"
    scale = 100 if quantity[0] == "classes" else 1
    middle = f"{scale * fmean(found):.2f}" if scale == 100 else number(fmean(found))
    return middle if len(found) < 2 else f"{middle} ± {number(scale * stdev(found), 2)}"


def measured_table(
    outcomes: Sequence[Outcome], columns: Mapping[str, Quantity] = COLUMNS
) -> tuple[list[str], list[list[str]]]:
    """A row per label: the columns, epochs, and seeds."""
    rows = []
    for label, group in by_label(outcomes).items():
        end = [str(group[0].trial.config.epochs), str(len(group))]
        rows.append([label, *(cell(group, quantity) for quantity in columns.values()), *end])
    return ["", *columns, "epochs", "seeds"], rows


def compared(outcomes: Sequence[Outcome], base: str, other: str, quantity: Quantity, words: str) -> str:
    """A sentence: how much higher a quantity is for one label than for another with the same seed, with its error."""
    groups = by_label(outcomes)
    scale, unit = (100, " points") if quantity[0] == "classes" else (1, "")
    if base not in groups or other not in groups:
        return f"{base} and {other} are not both done yet."
    ours, theirs = ({o.trial.config.seed: values([o], quantity) for o in groups[label]} for label in (other, base))
    both = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
    differences = [scale * (a - b) for mine, yours in both for a, b in zip(mine, yours, strict=False)]
    if not differences:
        return f"{words}: not measured for both {base} and {other}."
    beyond = ""
    if len(differences) > 1:
        error = stdev(differences) / math.sqrt(len(differences))
        beyond = f" (standard error over {len(differences)} seeds, seed by seed, {number(error, 2)})"
    return f"{words}: {other} {fmean(differences):+.3g}{unit} against {base}{beyond}."
