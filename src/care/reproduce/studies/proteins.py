"""Rotated point clouds: the rotations of the input are known, and act on the embedding nearly as rotations."""

from collections.abc import Sequence

from care import data
from care.evaluate.comparison.quantities import ACTED_ON
from care.evaluate.effects.orbits import orbits
from care.pretrained import load_pretrained
from care.report import orbit_figure, response_figure
from care.reproduce.presentation import (
    COMPOSITION,
    GAMMA,
    KNN,
    PROBE,
    RATIO,
    TUNED,
    Presentation,
    compared,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

CLOUDS = 6  # whose orbits are drawn
SPLIT = "CARE, split embedding"
AXIS, BACKBONE_AXIS = (ACTED_ON, "R² of the factor axis"), ("backbone", "R² of the factor axis")
COLUMNS = {
    "held-out ratio": RATIO,
    "composition error": COMPOSITION,
    "γ_f": GAMMA,
    "R² of the axis": AXIS,
    "backbone's R² of the axis": BACKBONE_AXIS,
    "tuned probe %": TUNED,
    "linear probe (paper) %": PROBE,
    "kNN-200 %": KNN,
}


def trials(scale: Scale) -> list[Trial]:
    """SimCLR, CARE, the equivariance loss with the uniformity loss only, and CARE on a split embedding."""
    care, d = scale.care("chains"), scale.config("chains").embedding_dim
    split = {**care, "equivariance": "split", "embedding_dim": 2 * d, "equivariant_dim": d, "equivariant_weight": 1.0}
    chosen = {
        "SimCLR": {},
        "CARE": care,
        "uniformity + equivariance": {**care, "method": "uniformity"},
        SPLIT: split,
    }
    return [trial for label, settings in chosen.items() for trial in scale.trials(label, "chains", **settings)]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """Held-out ratios, composition errors, R² of the longest axis of a cloud, and orbits of embeddings."""
    header, rows = measured_table(outcomes, COLUMNS)
    first = {o.trial.label: o for o in reversed(outcomes)}
    first = dict(reversed(first.items()))
    evaluations = {name: o.evaluation for name, o in first.items()}
    responses = {name: e.measurement(e.equivariant_output).values() for name, e in evaluations.items()}
    figures = {"proteins": response_figure(responses)}
    clouds = data.load("chains", "test").inputs[:CLOUDS]
    drawn = {name: orbits(load_pretrained(str(o.run)).embed, clouds) for name, o in first.items() if o.run is not None}
    if len(drawn) == len(first):
        figures["orbits"] = orbit_figure(drawn)
    remarks = (
        compared(outcomes, "SimCLR", "CARE", AXIS, "R² of the longest axis (the paper: CARE predicts it best)"),
        compared(outcomes, "SimCLR", "CARE", RATIO, "Held-out ratio"),
        compared(outcomes, "SimCLR", "CARE", COMPOSITION, "Composition error"),
        compared(outcomes, "SimCLR", "CARE", TUNED, "Tuned probe"),
        compared(outcomes, "SimCLR", SPLIT, TUNED, "Tuned probe"),
        compared(outcomes, "SimCLR", SPLIT, PROBE, "Linear probe (paper)"),
        compared(outcomes, "SimCLR", SPLIT, KNN, "kNN-200"),
        compared(outcomes, "SimCLR", SPLIT, AXIS, "R² of the longest axis"),
    )
    return Presentation(header, rows, figures, remarks)
