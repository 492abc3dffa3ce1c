"""Studies of SimCLR and CARE side by side: W_f, γ_f over training, the circle, retrieval, composition."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from care.evaluate.comparison.quantities import ACTED_ON
from care.report import cosine_figure, neighbors_figure, response_figure, training_figure, wahba_figure
from care.reproduce.presentation import (
    COMPOSITION,
    DISPLACEMENT,
    GAMMA,
    HUE,
    HUE_DISTANCE,
    KNN,
    MAPS,
    PROBE,
    RATIO,
    WAHBA,
    Presentation,
    compared,
    measured_table,
)
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

VARIANCE = (ACTED_ON, "variance of cos(f(x), f(ax))")
OVERLAP, PRECISION = ("backbone", "overlap of neighbors"), ("backbone", "class precision of neighbors")
# The three panels of the paper's figure: L_inv, L_equi and their ratio.
OVER_TRAINING = {"displacement": "displacement E‖f(ax) − f(x)‖", "gram_error": "Gram error (↓)", "gamma": "$γ_f$ (↓)"}


def _trials(scale: Scale, data: str = "cifar10", **chosen: Any) -> list[Trial]:
    """SimCLR and CARE with the first seed. The paper's figures, unlike its tables, are of ResNet-18."""
    shared = {**({"model": "resnet18"} if scale.name == "paper" else {}), **chosen}
    settings = {"SimCLR": shared, "CARE": {**scale.care(data), **shared}}
    return [Trial(name, scale.config(data, scale.seeds[0], **s), scale.measures) for name, s in settings.items()]


def on_cifar10(scale: Scale) -> list[Trial]:
    """SimCLR and CARE on CIFAR-10: several figures compare these two."""
    return _trials(scale)


def on_the_circle(scale: Scale) -> list[Trial]:
    """Encoders onto the unit circle, on which a rotation is an angle."""
    return _trials(scale, embedding_dim=2)


def on_flowers(scale: Scale) -> list[Trial]:
    """Encoders of flowers, whose colors matter; for at least 400 epochs, as 100 epochs are only 2,400 steps."""
    epochs = scale.config("flowers102").epochs
    return _trials(scale, "flowers102", epochs=epochs if scale.instead else max(400, epochs))


def present_wahba(outcomes: Sequence[Outcome]) -> Presentation:
    """W_f of every sampled augmentation: a box per model and a dot per augmentation."""
    measured = {o.trial.label: o.evaluation.measurement(o.evaluation.equivariant_output) for o in outcomes}
    words = next(iter(measured.values())).families["all"].augmentations
    figure = wahba_figure({name: m.wahba.values for name, m in measured.items()}, words)
    remarks = (
        compared(outcomes, "SimCLR", "CARE", WAHBA, "W_f (the paper: CARE's is lower)"),
        compared(outcomes, "SimCLR", "CARE", DISPLACEMENT, "Displacement, which W_f grows with"),
        compared(outcomes, "SimCLR", "CARE", RATIO, "Held-out ratio, which does not reward invariance"),
    )
    columns = {"W_f": WAHBA, "held-out ratio": RATIO, "displacement": DISPLACEMENT}
    return _presented(outcomes, columns, {"wahba": figure}, remarks)


def present_relative_equivariance(outcomes: Sequence[Outcome]) -> Presentation:
    """Displacement, Gram error and γ_f, which is their ratio, over training."""
    figure = training_figure({o.trial.label: o.log for o in outcomes}, OVER_TRAINING)
    remarks = (compared(outcomes, "SimCLR", "CARE", GAMMA, "γ_f after training (the paper: much lower)"),)
    columns = {"γ_f": GAMMA, "displacement": DISPLACEMENT, "held-out ratio": RATIO}
    return _presented(outcomes, columns, {"relative-equivariance": figure}, remarks)


def present_circle(outcomes: Sequence[Outcome]) -> Presentation:
    """Densities of cos∠(f(x), f(ax)) and their variance within an augmentation."""
    evaluations = {o.trial.label: o.evaluation for o in outcomes}
    cosines = {label: e.arrays.get(f"cosine/{e.equivariant_output}") for label, e in evaluations.items()}
    known = all(c is not None for c in cosines.values())
    figures = {"circle": cosine_figure(cosines)} if known else {}  # type: ignore[arg-type]
    remarks = (compared(outcomes, "SimCLR", "CARE", VARIANCE, "Variance of the cosine (the paper: CARE's is lower)"),)
    columns = {"variance of the cosine": VARIANCE, "held-out ratio": RATIO, "displacement": DISPLACEMENT}
    return _presented(outcomes, {**columns, "linear probe (paper) %": PROBE}, figures, remarks)


def present_retrieval(outcomes: Sequence[Outcome]) -> Presentation:
    """Neighbors of color-jittered queries: do they keep the query's color?"""
    figures = {}
    if all("pictures/backbone" in o.evaluation.arrays for o in outcomes):
        arrays = {o.trial.label: o.evaluation.arrays for o in outcomes}
        first = next(iter(arrays.values()))
        figures["retrieval"] = neighbors_figure(
            first["pictures/queries"],
            first["pictures/jittered"],
            {name: a["pictures/backbone"] for name, a in arrays.items()},
            right={name: a["pictures/backbone/right"] for name, a in arrays.items()},
        )
    remarks = (
        compared(outcomes, "SimCLR", "CARE", HUE_DISTANCE, "Hue distance of neighbors (the paper: lower, by eye)"),
        compared(outcomes, "SimCLR", "CARE", HUE, "R² of the hue shift, decoded from features"),
    )
    columns = {"hue distance": HUE_DISTANCE, "R² of hue": HUE, "overlap": OVERLAP, "class precision": PRECISION}
    return _presented(outcomes, {**columns, "linear probe (paper) %": PROBE}, figures, remarks)


def present_composition(outcomes: Sequence[Outcome]) -> Presentation:
    """Is the rotation of b∘a the product of the rotations of b and a? By family of augmentations."""
    evaluations = {o.trial.label: o.evaluation for o in outcomes}
    figure = response_figure({label: e.measurement(e.equivariant_output).values() for label, e in evaluations.items()})
    remarks = (
        compared(
            outcomes, "SimCLR", "CARE", COMPOSITION, "Composition error of R_b R_a (0 exact, 1 no better than none)"
        ),
    )
    columns = {
        "composition error": COMPOSITION,
        **MAPS,
        "kNN-200 %": KNN,
    }
    return _presented(outcomes, columns, {"composition": figure}, remarks)


def _presented(
    outcomes: Sequence[Outcome],
    columns: dict[str, tuple[str, str]],
    figures: dict[str, Figure],
    remarks: Sequence[str],
) -> Presentation:
    header, rows = measured_table(outcomes, columns)
    return Presentation(header, rows, figures, remarks)
