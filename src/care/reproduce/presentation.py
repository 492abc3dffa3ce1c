"""The presentation of a study: a table, figures and remarks, beside the paper's numbers."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

import torch
from matplotlib.figure import Figure

from care.evaluate.comparison.paired import Difference, paired_difference
from care.evaluate.comparison.quantities import ACTED_ON, CONTRASTED, Key
from care.evaluate.transfer.result import TRANSFER_TO
from care.reproduce.trial import Outcome
from care.tables import number

# Where a quantity is found in an evaluation.
TUNED, PROBE = ("classes", "linear probe (tuned)"), ("classes", "linear probe (paper), top-1")
KNN = ("classes", "kNN, k = 200")
KNN_OF_Z = (CONTRASTED, KNN[1])
KNN_WHITENED = ("classes", "kNN, k = 200, whitened")
RATIO, ANY_LINEAR = (ACTED_ON, "held-out ratio"), (ACTED_ON, "held-out ratio, any linear map")
GAMMA, WAHBA = (ACTED_ON, "γ_f"), (ACTED_ON, "W_f")
DISPLACEMENT, COMPOSITION = (ACTED_ON, "displacement"), (ACTED_ON, "composition error")
HUE, HUE_DISTANCE = ("backbone", "R² of hue, linear"), ("backbone", "hue distance of neighbors")
# How much one map for all images leaves unexplained, in the embedding and in the backbone.
MAPS: dict[str, Key] = {
    "held-out ratio": RATIO,
    "any linear map": ANY_LINEAR,
    "backbone's held-out ratio": ("backbone", RATIO[1]),
    "backbone, any linear map": ("backbone", ANY_LINEAR[1]),
}
# Title of a column → the quantity it shows.
COLUMNS: dict[str, Key] = {
    "tuned probe %": TUNED,
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
        object.__setattr__(self, "remarks", tuple(dict.fromkeys(self.remarks)))  # each remark once

    def markdown(self) -> str:
        """The table and the remarks in Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return table + "".join(f"\n\n{remark}" for remark in self.remarks) + "\n"


# Words in the name of a quantity → the versions of the measures in which its estimator changed.
ESTIMATED = {
    **dict.fromkeys(("held-out ratio", "unexplained"), (2, 6, 7)),
    **dict.fromkeys(("kNN", "MRR", "H@", "PRE", "R² of"), (2,)),
    "composition": (3,),
    ", network": (5,),
}
EARLIER = {
    2: "measured by an earlier version. Held-out ratios are of rotations fitted to half of the images, which is too "
    "high by about d/n; R² is that of a linear decoder, gray images included; kNN has τ = 0.5; there was no tuned "
    "probe.",
    3: "composition errors are means of ratios, of which one that nearly undoes itself may outweigh the others.",
    5: "R² of the network is not that of its mixture with the linear decoder, and can be too low.",
    7: "held-out ratios and unexplained variance are of an estimator that differs little with many images per "
    "dimension, but can be too low where a rotation explains little.",
}
# Version → a word in the columns of the tables that it matters for.
SHOWN = {2: "", 3: "composition", 5: "network", 7: "ratio"}


def marked(presented: Presentation, outcomes: Sequence[Outcome]) -> Presentation:
    """Add remarks on numbers that were measured with an earlier version of the measures."""
    shown = (version for version, words in SHOWN.items() if any(words in column for column in presented.header))
    said = (_of_before(outcomes, version) for version in shown)
    return dataclasses.replace(presented, remarks=(*presented.remarks, *filter(None, said)))


def _of_before(outcomes: Sequence[Outcome], version: int) -> str | None:
    """A remark on the labels that were measured before a version, and what that means; None if there are none."""
    before = dict.fromkeys(o.trial.label for o in outcomes if o.evaluation.estimators < version)
    if not before:
        return None
    which = "All" if len(before) == len(by_label(outcomes)) else ", ".join(before)
    again = any(o.evaluation.estimators >= version for o in outcomes if o.trial.label in before)
    some = " Where some seeds were measured again, these columns are of those seeds alone." if again else ""
    return f"{which}: {EARLIER[version]}{some}"


def _version(outcome: Outcome, quantity: Key) -> int:
    """The version in which the estimator last changed that the quantity was measured with."""
    changes = (version for words, versions in ESTIMATED.items() if words in quantity[1] for version in versions)
    return max((version for version in changes if version <= outcome.evaluation.estimators), default=1)


def is_accuracy(quantity: Key) -> bool:
    """Whether a quantity is a share of correct answers, which is shown in percent."""
    return quantity[0] == "classes" or quantity[0].startswith(TRANSFER_TO) or quantity[1] == KNN[1]


def by_label(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of every label, one per seed, in the order in which labels first appear."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.trial.label, []).append(outcome)
    return found


def values(outcomes: Sequence[Outcome], quantity: Key) -> list[float]:
    """A quantity of every seed that has it in the newest of its estimators that any seed was measured with."""
    newest = max((_version(outcome, quantity) for outcome in outcomes), default=1)
    found = (outcome.value(*quantity) for outcome in outcomes if _version(outcome, quantity) == newest)
    return [value for value in found if value is not None and math.isfinite(value)]


def mean(outcomes: Sequence[Outcome], quantity: Key) -> float:
    """The mean over seeds; NaN if nothing was measured."""
    found = values(outcomes, quantity)
    return fmean(found) if found else math.nan


def cell(outcomes: Sequence[Outcome], quantity: Key, with_dimension: bool = False) -> str:
    """Mean ± standard deviation over seeds, or just the value of one seed; optionally with the embedding dimension."""
    found = values(outcomes, quantity)
    if not found:
        return "–"
    scale = 100 if is_accuracy(quantity) else 1
    middle = f"{scale * fmean(found):.2f}" if scale == 100 else number(fmean(found))
    spread = "" if len(found) < 2 else f" ± {number(scale * stdev(found), 2)}"
    return middle + spread + (f" (d = {outcomes[0].dimension(quantity[0])})" if with_dimension else "")


def measured_table(
    outcomes: Sequence[Outcome], columns: Mapping[str, Key] = COLUMNS
) -> tuple[list[str], list[list[str]]]:
    """A row per label: the columns, epochs, and seeds. If dimensions differ within a column, its cells name them."""
    dimensions = {quantity: {o.dimension(quantity[0]) for o in outcomes} - {None} for quantity in columns.values()}
    rows = []
    for label, group in by_label(outcomes).items():
        cells = [
            cell(group, quantity, len(dimensions[quantity]) > 1 and not is_accuracy(quantity))
            for quantity in columns.values()
        ]
        rows.append([label, *cells, str(group[0].trial.config.epochs), str(len(group))])
    return ["", *columns, "epochs", "seeds"], rows


def seen_views(outcome: Outcome) -> int:
    """How many augmented images went through the encoder."""
    config, steps = outcome.trial.config, int(outcome.log[-1]["step"])
    return round(steps * config.batch_size * config.views_a_step)


def compared(outcomes: Sequence[Outcome], base: str, other: str, quantity: Key, words: str) -> str:
    """A sentence: how much higher a quantity is for one label than for another, seed by seed, with its interval."""
    groups = by_label(outcomes)
    scale, unit = (100, " points") if is_accuracy(quantity) else (1, "")
    if base not in groups or other not in groups:
        return f"{base} and {other} are not both done yet."
    ours, theirs = ({o.trial.config.seed: o for o in groups[label]} for label in (other, base))
    both = _of_one_version([(ours[seed], theirs[seed]) for seed in ours if seed in theirs], quantity)
    known = ((values([mine], quantity), values([yours], quantity)) for mine, yours in both)
    pairs = [(scale * a, scale * b) for mine, yours in known for a, b in zip(mine, yours, strict=False)]
    if not pairs:
        return f"{words}: not measured for both {base} and {other}."
    after, before = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    found = paired_difference(before, after)
    return f"{words}: {other} {found.difference:+.3g}{unit} against {base} ({_interval(found)})."


def _of_one_version(pairs: Sequence[tuple[Outcome, Outcome]], quantity: Key) -> list[tuple[Outcome, Outcome]]:
    """The pairs measured with one estimator, the newest that both outcomes of any pair were measured with."""
    alike = [pair for pair in pairs if _version(pair[0], quantity) == _version(pair[1], quantity)]
    newest = max((_version(first, quantity) for first, _ in alike), default=1)
    return [pair for pair in alike if _version(pair[0], quantity) == newest]


def _interval(found: Difference) -> str:
    """The interval of a difference over seeds, in words."""
    if found.units == 1:
        return "one seed"
    if math.isnan(found.low):
        return f"{found.units} seeds, too few for an interval"
    decided = "" if found.low > 0 or found.high < 0 else ", undecided"
    return f"95 %: {found.low:+.3g} to {found.high:+.3g}, Student's t over {found.units} seeds{decided}"
