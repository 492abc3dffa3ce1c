"""Choose λ, chunks, views, learning rate and head on images cut from the training split, never on test images."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from care.report import sweep_figure
from care.reproduce.presentation import GAMMA, HUE, KNN, PROBE, RATIO, Presentation, by_label, mean, measured_table
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)
PANELS = {"linear probe (paper)": PROBE, "kNN-200": KNN, "γ_f": GAMMA, "held-out ratio": RATIO, "R² of hue": HUE}
# Variants of CARE, with the middle value of λ.
VARIANTS: dict[str, dict[str, Any]] = {
    "4 chunks": {"chunks": 4},
    "64 chunks": {"chunks": 64},
    "one pair for the batch": {"augmentation_per": "batch"},
    "a and a' the identity half of the time each": {"identity_probability": 0.5},
    "two views, both per chunk": {"equivariance_views": "shared"},
    "two views, one per chunk": {"equivariance_views": "mixed"},
}
# Learning rates of SimCLR and of CARE with the middle λ. All other trials have the cosine schedule from 10⁻³.
RATES: dict[str, dict[str, Any]] = {
    "constant 0.001": {"schedule": "constant"},
    "constant 0.001, then to 0": {"schedule": "cooldown"},
    "cosine from 0.003": {"learning_rate": 3e-3},
}
# Projection heads, with the schedule that was chosen. The paper's has two layers of width 512 and 128 outputs.
HEADS: dict[str, dict[str, Any]] = {
    "head of three layers": {"head_depth": 3},
    "head 2,048 wide": {"head_width": 2048},
    "embedding of 512": {"embedding_dim": 512},
}
SHORT = {"epochs": 40, "evaluate_every": 10, "schedule": "cosine"}
PER_CLASS = 500


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, CARE with every λ, and the variants."""
    smoke = scale.name == "smoke"
    shared = {"validation": 5} if smoke else {**SHORT, "validation": PER_CLASS}
    chosen: dict[str, dict[str, Any]] = {"SimCLR": {}, **{f"λ = {weight:g}": _care(weight) for weight in WEIGHTS}}
    middle = _care(WEIGHTS[len(WEIGHTS) // 2])
    chosen |= {name: {**middle, **variant} for name, variant in VARIANTS.items()}
    tuned = RATES | {f"constant 0.001, {name}": {"schedule": "constant", **head} for name, head in HEADS.items()}
    chosen |= {f"SimCLR, {name}": setting for name, setting in tuned.items()}
    chosen |= {f"CARE, {name}": {**middle, **setting} for name, setting in tuned.items()}
    if smoke:
        chosen = {name: chosen[name] for name in ("SimCLR", "λ = 3", "two views, one per chunk")}
    measures = dataclasses.replace(scale.measures, augmentations=min(6, scale.measures.augmentations), seeds=2)
    return [
        Trial(label, scale.config("cifar10", **{**shared, **settings}), measures) for label, settings in chosen.items()
    ]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """Every quantity over λ, with SimCLR as a line and the variants as single points."""
    groups = by_label(outcomes)
    panels = {}
    for title, quantity in PANELS.items():
        found = {label: mean(group, quantity) for label, group in groups.items()}
        weights = {_weight(group[0]): found[label] for label, group in groups.items() if "λ" in label}
        others = {label: found[label] for label in found if "λ" not in label and label != "SimCLR"}
        panels[title] = (weights, found.get("SimCLR"), others)
    best = max(groups, key=lambda label: mean(groups[label], PROBE))
    remark = f"The best probe on the validation images: {best}, {100 * mean(groups[best], PROBE):.2f} %."
    header, rows = measured_table(outcomes)
    return Presentation(header, rows, {"lambda-sweep": sweep_figure(panels)}, (remark,))


def _care(weight: float) -> dict[str, Any]:
    return {"equivariance": "care", "care_weight": weight}


def _weight(outcome: Outcome) -> float:
    return float(outcome.trial.config.flat()["care_weight"])
