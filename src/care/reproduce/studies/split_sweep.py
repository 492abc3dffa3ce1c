"""Not in the paper: κ, the weight of the equivariant part of a split embedding, chosen on validation images."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import ACTED_ON, Key
from care.report import sweep_figure
from care.reproduce.presentation import (
    COMPOSITION,
    HUE,
    HUE_DISTANCE,
    KNN,
    PROBE,
    RATIO,
    Presentation,
    by_label,
    compared,
    mean,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.lambda_sweep import PER_CLASS, SHORT
from care.reproduce.trial import Outcome, Trial
from care.train import keeping
from care.train.recipes import split_embedding

BASE = "SimCLR"
KAPPAS = (0.03, 0.1, 0.3, 1.0)
EVERYTHING = "split: all augmentations, κ = 1"
COLOR_RATIO, BACKBONE_RATIO = (ACTED_ON, "held-out ratio, color"), ("backbone", "held-out ratio, color")
COLOR_COMPOSITION = (ACTED_ON, "composition error, color")
UNEXPLAINED, MRR = (ACTED_ON, "unexplained variance, color"), (ACTED_ON, "MRR by rotation, color")
COLUMNS: dict[str, Key] = {
    "linear probe (paper) %": PROBE,
    "kNN-200 %": KNN,
    "held-out ratio": RATIO,
    "composition error": COMPOSITION,
    "held-out ratio, color": COLOR_RATIO,
    "composition error, color": COLOR_COMPOSITION,
    "unexplained variance, color": UNEXPLAINED,
    "backbone's held-out ratio, color": BACKBONE_RATIO,
    "MRR, color": MRR,
    "R² of hue": HUE,
    "hue distance": HUE_DISTANCE,
}
PANELS = {
    "linear probe (paper)": PROBE,
    "kNN-200": KNN,
    "held-out ratio, color": COLOR_RATIO,
    "backbone's ratio, color": BACKBONE_RATIO,
    "R² of hue": HUE,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, CARE as in the paper, and CARE on split embeddings, all measured under the paper's policy."""
    usual, smoke = scale.config("cifar10"), scale.name == "smoke"
    shared = {"validation": 5} if smoke else {**SHORT, "validation": PER_CLASS, "schedule": "constant"}
    chosen: dict[str, dict[str, Any]] = {BASE: {}, "CARE": scale.care("cifar10")}
    chosen |= {_named(k): {**keeping("photometric", usual.embedding_dim), "equivariant_weight": k} for k in KAPPAS}
    chosen[EVERYTHING] = split_embedding(usual.embedding_dim, equivariant_weight=1.0)
    if smoke:
        chosen = {name: chosen[name] for name in (BASE, _named(KAPPAS[0]), EVERYTHING)}
    measures = dataclasses.replace(scale.measures, augmentations=min(6, scale.measures.augmentations), seeds=2)
    return [Trial(label, scale.config("cifar10", **shared, **settings), measures) for label, settings in chosen.items()]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """Every quantity over κ, with SimCLR as a line and everything else as single points."""
    groups = by_label(outcomes)
    curve = {_named(kappa): kappa for kappa in KAPPAS}
    panels = {}
    for title, quantity in PANELS.items():
        found = {label: mean(group, quantity) for label, group in groups.items()}
        kappas = {curve[label]: found[label] for label in found if label in curve}
        others = {label: found[label] for label in found if label not in curve and label != BASE}
        panels[title] = (kappas, found.get(BASE), others)
    remarks = [compared(outcomes, BASE, label, PROBE, "Linear probe (paper)") for label in groups if label != BASE]
    header, rows = measured_table(outcomes, COLUMNS)
    return Presentation(header, rows, {"split-sweep": sweep_figure(panels, variable="κ")}, remarks)


def _named(kappa: float) -> str:
    return f"split: photometric, κ = {kappa:g}"
