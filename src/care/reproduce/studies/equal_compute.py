"""Not in the paper: CARE against SimCLR when both put the same number of views through the encoder."""

from collections.abc import Sequence
from typing import Any

from care.report import bar_figure
from care.reproduce.presentation import (
    COLUMNS,
    GAMMA,
    HUE,
    MAPS,
    PROBE,
    RATIO,
    TUNED,
    WAHBA,
    Presentation,
    by_label,
    compared,
    measured_table,
    seen_views,
    values,
)
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

TWICE = "SimCLR, twice the epochs"
TWO = "CARE, two views"


def trials(scale: Scale) -> list[Trial]:
    """SimCLR and CARE with shared views, two per step; CARE with four per step; SimCLR with two for twice as long."""
    care, epochs = scale.care("cifar10"), scale.config("cifar10").epochs
    chosen: dict[str, dict[str, Any]] = {
        "SimCLR": {},
        TWO: {**care, "equivariance_views": "shared"},
        "CARE": care,
        "CARE, one pair for the batch": {**care, "augmentation_per": "batch"},
        TWICE: {"epochs": 2 * epochs},
    }
    return [trial for label, settings in chosen.items() for trial in scale.trials(label, "cifar10", **settings)]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table with the number of views, and the differences at equal epochs and at equal compute."""
    header, rows = measured_table(outcomes, {**COLUMNS, **MAPS})
    groups = by_label(outcomes)
    header.insert(1, "views, millions")
    for row in rows:
        row.insert(1, f"{seen_views(groups[row[0]][0]) / 1e6:.0f}")
    pairs = (("SimCLR", "CARE", "equal epochs"), ("SimCLR", TWO, "equal views"), (TWICE, "CARE", "equal views"))
    remarks = [
        compared(outcomes, base, care, quantity, f"{name} at {when}")
        for base, care, when in pairs
        for name, quantity in (
            ("Tuned probe", TUNED),
            ("Linear probe (paper)", PROBE),
            ("γ_f", GAMMA),
            ("W_f", WAHBA),
            ("Held-out ratio", RATIO),
            ("R² of hue", HUE),
        )
    ]
    bars = {label: [100 * value for value in values(group, PROBE)] for label, group in groups.items()}
    return Presentation(header, rows, {"equal-compute": bar_figure(bars, {}, "linear probe (paper), top-1 %")}, remarks)
