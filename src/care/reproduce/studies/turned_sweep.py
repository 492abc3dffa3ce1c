"""Not in the paper: how many coordinates colors turn, with which λ and κ. Chosen as `lambda-sweep` chooses."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from care.report import sweep_figure
from care.reproduce.presentation import (
    HUE,
    HUE_DISTANCE,
    KNN,
    PROBE,
    RATIO,
    UNEXPLAINED,
    Presentation,
    Quantity,
    by_label,
    compared,
    mean,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.lambda_sweep import PER_CLASS, SHORT
from care.reproduce.trial import Outcome, Trial
from care.train import Config

BASE = "SimCLR"
WEIGHTS, TURNED = (3.0, 10.0, 30.0), 16
# t, λ and κ beside them.
OTHERS = ((16, 10.0, 0.3), (16, 10.0, 0.1), (8, 10.0, 1.0), (32, 10.0, 1.0))
EVERYTHING = "16 turned by all augmentations"
COLOR_RATIO, BEFORE = ("head", "held-out ratio, color"), ("backbone", "held-out ratio, color")
MRR = ("head", "MRR by rotation, color")
COLUMNS: dict[str, Quantity] = {
    "probe %": PROBE,
    "kNN-200 %": KNN,
    "ratio": RATIO,
    "unexplained": UNEXPLAINED,
    "ratio of color": COLOR_RATIO,
    "backbone's": BEFORE,
    "MRR of color": MRR,
    "R² of hue": HUE,
    "hue distance": HUE_DISTANCE,
}
PANELS = {
    "probe": PROBE,
    "kNN-200": KNN,
    "held-out ratio of color": COLOR_RATIO,
    "backbone's": BEFORE,
    "R² of hue": HUE,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, CARE as in the paper, and with coordinates of its own; all are looked at under the paper's policy."""
    usual, smoke = scale.config("cifar10"), scale.name == "smoke"
    shared = {"validation": 5} if smoke else {**SHORT, "validation": PER_CLASS, "schedule": "constant"}
    points = (*((TURNED, weight, 1.0) for weight in WEIGHTS), *OTHERS)
    chosen: dict[str, dict[str, Any]] = {BASE: {}, "CARE": scale.care("cifar10")}
    chosen |= {_named(*point): {**_apart(usual, *point), "chunk_policy": "color_only"} for point in points}
    chosen[EVERYTHING] = _apart(usual, *points[1])
    if smoke:
        chosen = {name: chosen[name] for name in (BASE, _named(*points[0]), EVERYTHING)}
    measures = dataclasses.replace(scale.measures, augmentations=min(6, scale.measures.augmentations), seeds=2)
    configs = {label: scale.config("cifar10", **shared, **settings) for label, settings in chosen.items()}
    under = {label: usual.chunk_policy for label, c in configs.items() if c.chunk_policy != usual.chunk_policy}
    return [Trial(label, config, measures, under.get(label)) for label, config in configs.items()]


def _apart(usual: Config, turned: int, weight: float, kappa: float) -> dict[str, Any]:
    return {"turned": turned, "embedding": usual.embedding + turned, "equivariance": weight, "turning": kappa}


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """Every quantity over λ, with SimCLR as a line and other numbers of coordinates as single points."""
    groups = by_label(outcomes)
    curve = {_named(TURNED, weight): weight for weight in WEIGHTS}
    panels = {}
    for title, quantity in PANELS.items():
        found = {label: mean(group, quantity) for label, group in groups.items()}
        weights = {curve[label]: found[label] for label in found if label in curve}
        others = {label: found[label] for label in found if label not in curve and label != BASE}
        panels[title] = (weights, found.get(BASE), others)
    remarks = [compared(outcomes, BASE, label, PROBE, "Linear probe") for label in groups if label != BASE]
    header, rows = measured_table(outcomes, COLUMNS)
    return Presentation(header, rows, {"turned-sweep": sweep_figure(panels)}, remarks)


def _named(turned: int, weight: float, kappa: float = 1.0) -> str:
    return f"{turned} turned, λ = {weight:g}" + (f", κ = {kappa:g}" if kappa != 1 else "")
