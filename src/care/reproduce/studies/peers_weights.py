"""Not in the paper: choose the loss weight of each related method on validation images, in short trainings.

Three weights are tried: the one of the method's paper, or our default, a third of it, and three times as much. The
rule: of the weights whose tuned probe is within one standard error of the method's best, choose the one that keeps
most of the hue.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import Key
from care.report import path_figure
from care.reproduce.presentation import HUE, KNN, TUNED, Presentation, by_label, mean, measured_table
from care.reproduce.scales import Scale
from care.reproduce.studies.lambda_sweep import PER_CLASS
from care.reproduce.studies.peers import BASE, HUE_BY_NETWORK, WEIGHTS, peer_config, settings
from care.reproduce.trial import Outcome, Trial

FACTORS = (1 / 3, 1.0, 3.0)
# Ten epochs of SimCLR instead of the 50 in `peers`, on a cosine schedule even if the recipe for 50 has another.
SHORT: dict[str, Any] = {"epochs": 10, "schedule": "cosine", "warmup_epochs": 1, "evaluate_every": 20}
AUGMENTATIONS = 2  # few: nothing is chosen by the measures that they give
COLUMNS: dict[str, Key] = {
    "tuned probe %": TUNED,
    "kNN-200 %": KNN,
    "R² of hue, network": HUE_BY_NETWORK,
    "R² of hue, linear": HUE,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, and three weights of each method that has one, with the first seed."""
    smoke = scale.instead is not None
    shared = {"validation": 5} if smoke else {**SHORT, "validation": PER_CLASS}
    measures = dataclasses.replace(
        scale.measures, probe="none", augmentations=min(AUGMENTATIONS, scale.measures.augmentations)
    )
    every = settings(scale)
    found = {BASE: every[BASE]}
    for label in ["AugSelf"] if smoke else WEIGHTS:
        own = every[label]
        usual = peer_config(scale, 0, own).flat()[WEIGHTS[label]]
        found |= {_named(label, weight): {**own, WEIGHTS[label]: weight} for weight in around(usual)}
    seed = scale.seeds[0]
    return [Trial(label, peer_config(scale, seed, chosen, **shared), measures) for label, chosen in found.items()]


def around(weight: float) -> list[float]:
    """The weights that are tried, to three digits."""
    return [float(f"{factor * weight:.3g}") for factor in FACTORS]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, a path over the weights for every method, and the weights that the rule chooses."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    header.insert(1, "views a step")
    for row in rows:
        row.insert(1, f"{groups[row[0]][0].trial.config.views_a_step:.3g}")
    paths = {label: [_point(o) for o in weights.values()] for label, weights in by_method(outcomes).items()}
    paths |= {BASE: [_point(o) for o in groups.get(BASE, [])]}
    figure = path_figure(paths, "R² of hue, by a network →", "tuned probe on validation images, % →")
    return Presentation(header, rows, {"peers-weights": figure}, remarks(outcomes))


def by_method(outcomes: Sequence[Outcome]) -> dict[str, dict[float, Outcome]]:
    """The outcomes of every method by their weight, from small to large."""
    found: dict[str, dict[float, Outcome]] = {}
    for label in WEIGHTS:
        theirs = [o for o in outcomes if o.trial.label == _named(label, _weight(o, label))]
        if theirs:
            found[label] = {_weight(o, label): o for o in sorted(theirs, key=lambda o: _weight(o, label))}
    return found


def chosen(weights: dict[float, Outcome]) -> float:
    """The weight that the rule in this module's docstring chooses."""
    accuracy = {weight: mean([outcome], TUNED) for weight, outcome in weights.items()}
    best = max(accuracy.values())
    n = min(outcome.evaluation.record["about"]["test_images"] for outcome in weights.values())
    as_good = [w for w in weights if accuracy[w] >= best - math.sqrt(best * (1 - best) / n)]
    kept = {w: mean([weights[w]], HUE_BY_NETWORK) for w in as_good}
    return max(as_good, key=lambda w: -math.inf if math.isnan(kept[w]) else kept[w])


def remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """The chosen weight of each method whose weights are all done, also as code for `care.reproduce.studies.peers`."""
    found, said = {}, []
    for label, weights in by_method(outcomes).items():
        if len(weights) < len(FACTORS):
            said.append(f"{label}: {len(weights)} of {len(FACTORS)} weights are done, none is chosen.")
            continue
        found[label] = chosen(weights)
        edge = ", at the edge of what was tried" if found[label] in (min(weights), max(weights)) else ""
        said.append(f"{label}: {WEIGHTS[label]} {found[label]:g}{edge}.")
    return [*said, f"CHOSEN = {found!r}"] if found else said or ["No weight is done yet."]


def _weight(outcome: Outcome, label: str) -> float:
    """The weight that a trial was trained with, if it is one of the method called `label`."""
    return float(outcome.trial.config.flat().get(WEIGHTS[label], math.nan))


def _named(label: str, weight: float) -> str:
    return f"{label}, {weight:g}"


def _point(outcome: Outcome) -> tuple[float, float]:
    return mean([outcome], HUE_BY_NETWORK), 100 * mean([outcome], TUNED)
