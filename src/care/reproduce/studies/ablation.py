"""Six combinations of the invariance, equivariance and uniformity losses: probes, and cosines of positive pairs."""

from collections.abc import Sequence
from typing import Any

import torch

from care.report import bar_figure, positive_cosine_figure
from care.reproduce.presentation import (
    COMPOSITION,
    DISPLACEMENT,
    GAMMA,
    KNN,
    PROBE,
    RATIO,
    Presentation,
    by_label,
    measured_table,
    values,
)
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

COLUMNS = {
    "linear probe (paper) %": PROBE,
    "kNN-200 %": KNN,
    "held-out ratio": RATIO,
    "composition error": COMPOSITION,
    "γ_f": GAMMA,
    "displacement": DISPLACEMENT,
}


def trials(scale: Scale) -> list[Trial]:
    """Every combination of losses with the first seed."""
    care = scale.care("cifar10")
    chosen: dict[str, dict[str, Any]] = {
        "invariance": {"method": "invariance"},
        "equivariance": {"method": "none", **care, "care_weight": 1.0},
        "uniformity": {"method": "uniformity"},
        "uniformity + equivariance": {"method": "uniformity", **care},
        "InfoNCE": {},
        "CARE": care,
    }
    first = scale.seeds[0]
    return [Trial(label, scale.config("cifar10", first, **c), scale.measures) for label, c in chosen.items()]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The paper's bar plot, and the histograms and curves of its appendix."""
    header, rows = measured_table(outcomes, COLUMNS)
    bars = {label: [100 * v for v in values(group, PROBE)] for label, group in by_label(outcomes).items()}
    figures = {"ablation": bar_figure(bars, {}, "linear probe (paper), top-1 %")}
    known = {o.trial.label: o.evaluation for o in outcomes if "positive_quantiles" in o.evaluation.record}
    histograms = {
        label: torch.tensor(e.record["positive_quantiles"][e.equivariant_output]) for label, e in known.items()
    }
    curves = {o.trial.label: [(r["epoch"], r.get("positive_cosine")) for r in o.log] for o in outcomes}
    if histograms or any(curves.values()):
        figures["positive-cosines"] = positive_cosine_figure(histograms, curves)
    ranked = sorted(outcomes, key=lambda o: -(o.value(*PROBE) or 0))
    remark = f"From the best probe to the worst: {', '.join(o.trial.label for o in ranked)}. The paper: CARE is best."
    return Presentation(header, rows, figures, (remark,))
