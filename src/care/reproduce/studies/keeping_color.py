"""Not in the paper: two ways to keep the color that InfoNCE makes an encoder discard.

InfoNCE pulls the embeddings of two views of an image together, so the encoder discards whatever differs between them.
Here the two views have the same hue, and are never gray ("color kept"). Or they differ as in the paper, and the
embedding is split: InfoNCE acts on the invariant part, CARE on the equivariant part, under photometric changes or hue
shifts alone.
"""

from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import ACTED_ON
from care.evaluate.effects.projections import KINDS, projected_output
from care.report import decoding_figure, response_figure
from care.reproduce.presentation import (
    ANY_LINEAR,
    COMPOSITION,
    DISPLACEMENT,
    GAMMA,
    HUE,
    HUE_DISTANCE,
    KNN,
    PROBE,
    RATIO,
    TUNED,
    Presentation,
    by_label,
    cell,
    compared,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.decoding import r2_by_output
from care.reproduce.studies.split_sweep import BACKBONE_RATIO, COLOR_COMPOSITION, COLOR_RATIO, MRR, UNEXPLAINED
from care.reproduce.trial import Outcome, Trial
from care.train import keeping
from care.train.recipes import EQUIVARIANT_DIM

BASE, KEPT, CARE_KEPT = "SimCLR", "SimCLR, color kept", "CARE, color kept"
STEERED, COLORS, HUES = "CARE, color kept, steering", "CARE, split: photometric", "CARE, split: hue"
FIRST = (ACTED_ON, "H@1 by rotation, color")
HUE_RATIO, HUE_COMPOSITION = (ACTED_ON, "held-out ratio, hue"), (ACTED_ON, "composition error, hue")
COLUMNS = {
    "tuned probe %": TUNED,
    "linear probe (paper) %": PROBE,
    "kNN-200 %": KNN,
    "γ_f": GAMMA,
    "held-out ratio": RATIO,
    "any linear map": ANY_LINEAR,
    "composition error": COMPOSITION,
    "held-out ratio, color": COLOR_RATIO,
    "unexplained variance, color": UNEXPLAINED,
    "composition error, color": COLOR_COMPOSITION,
    "held-out ratio, hue": HUE_RATIO,
    "composition error, hue": HUE_COMPOSITION,
    "MRR, color": MRR,
    "H@1, color": FIRST,
    "backbone's held-out ratio, color": BACKBONE_RATIO,
    "displacement": DISPLACEMENT,
    "R² of hue": HUE,
    "R² of brightness": ("backbone", "R² of brightness, linear"),
    "R² of contrast": ("backbone", "R² of contrast, linear"),
    "R² of blur": ("backbone", "R² of blur, linear"),
    "hue distance": HUE_DISTANCE,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, CARE and split embeddings with all seeds, "color kept" with the first; all are measured under the paper's
    policy."""
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
    """The table, the response of embeddings by family, and R² decoded from features."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    rows = [
        *rows,
        *(row for kind in KINDS for row in _control(groups.get(BASE, []), projected_output(kind, EQUIVARIANT_DIM))),
    ]
    first = {label: group[0].evaluation for label, group in groups.items()}
    responses = {label: e.measurement(e.equivariant_output).values() for label, e in first.items()}
    remarks = [
        compared(outcomes, base, other, quantity, words)
        for base, other in (
            *((BASE, other) for other in ("CARE", COLORS, HUES, CARE_KEPT)),
            (KEPT, CARE_KEPT),
            (CARE_KEPT, STEERED),
        )
        for quantity, words in (
            (TUNED, "Tuned probe"),
            (PROBE, "Linear probe (paper)"),
            (KNN, "kNN-200"),
            (HUE, "R² of hue"),
            (HUE_DISTANCE, "Hue distance of neighbors"),
            (COLOR_RATIO, "Held-out ratio of color"),
            (HUE_RATIO, "Held-out ratio of hue"),
        )
    ]
    figures = {"keeping-color": response_figure(responses), "decoding": decoding_figure(r2_by_output(groups))}
    return Presentation(header, rows, figures, remarks)


def _control(outcomes: Sequence[Outcome], output: str) -> list[list[str]]:
    """A row for SimCLR's embedding projected to as many directions as the equivariant part has; none if unmeasured."""
    measured = [outcome for outcome in outcomes if output in outcome.evaluation.outputs]
    if not measured:
        return []
    columns = [(output, name) if group == ACTED_ON else None for group, name in COLUMNS.values()]
    cells = [cell(measured, quantity, with_dimension=True) if quantity else "–" for quantity in columns]
    kind = output.split("-")[1]
    return [
        [
            f"{BASE}, {EQUIVARIANT_DIM} {kind} directions",
            *cells,
            str(measured[0].trial.config.epochs),
            str(len(measured)),
        ]
    ]
