"""Not in the paper: what if the contrast does not ask for invariance to the hue, and only L_equi sees it?

InfoNCE asks that two views of an image be the same point. What the views differ in cannot be kept then, whatever
another loss says. Here the views of the contrast have the same hue, and are never gray; or they differ as always, and
what augmentations turn has coordinates of its own, which the contrast does not see: colors, or the hue alone.
"""

from collections.abc import Sequence
from typing import Any

from care.report import response_figure, sensitivity_figure
from care.reproduce.presentation import (
    ANY_LINEAR,
    COMPOSITION,
    GAMMA,
    HUE,
    HUE_DISTANCE,
    KNN,
    MOVED,
    PROBE,
    RATIO,
    Presentation,
    by_label,
    compared,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.sensitivity import r2_by_output
from care.reproduce.studies.split_sweep import BEFORE, COLOR_RATIO, MRR, UNEXPLAINED
from care.reproduce.trial import Outcome, Trial
from care.train import keeping

BASE, KEPT, CARE_KEPT = "SimCLR", "SimCLR, color kept", "CARE, color kept"
STEERED, COLORS, HUES = "CARE, color kept, steered", "CARE, colors turned apart", "CARE, hue turned apart"
COLOR_COMPOSITION = ("head", "composition defect, color")
COLUMNS = {
    "probe %": PROBE,
    "kNN-200 %": KNN,
    "γ_f": GAMMA,
    "held-out ratio": RATIO,
    "any linear map": ANY_LINEAR,
    "composition": COMPOSITION,
    "ratio of color": COLOR_RATIO,
    "unexplained of color": UNEXPLAINED,
    "composition of color": COLOR_COMPOSITION,
    "MRR of color": MRR,
    "backbone's ratio": BEFORE,
    "moved by": MOVED,
    "R² of hue": HUE,
    "hue distance": HUE_DISTANCE,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR and CARE as always and turned apart, with all seeds; with the color kept, with the first. All are measured
    under the paper's policy."""
    usual = scale.config("cifar10")
    care, kept = scale.care("cifar10"), {"policy": "color_kept", "measure_policy": usual.policy}
    for_chunks = {**care, **kept, "equivariance_policy": usual.policy}
    chosen: dict[str, dict[str, Any]] = {
        BASE: {},
        "CARE": care,
        KEPT: kept,
        CARE_KEPT: for_chunks,
        STEERED: {**for_chunks, "equivariance": "steering"},
        COLORS: keeping("photometric", usual.embedding_dim),
        HUES: keeping("hue", usual.embedding_dim),
    }
    return [
        Trial(label, scale.config("cifar10", seed, **settings), scale.measures)
        for label, settings in chosen.items()
        for seed in (scale.seeds[:1] if settings.get("policy") else scale.seeds)
    ]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, how embeddings respond by family, and what features tell."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    responses = {label: group[0].evaluation.measurement("head").values() for label, group in groups.items()}
    remarks = [
        compared(outcomes, base, other, quantity, words)
        for base, other in ((BASE, CARE_KEPT), (KEPT, CARE_KEPT), (CARE_KEPT, STEERED), (BASE, COLORS), (BASE, HUES))
        for quantity, words in ((PROBE, "Linear probe"), (HUE, "R² of hue"), (COLOR_RATIO, "Held-out ratio of color"))
    ]
    figures = {"keeping-color": response_figure(responses), "told": sensitivity_figure(r2_by_output(groups))}
    return Presentation(header, rows, figures, remarks)
