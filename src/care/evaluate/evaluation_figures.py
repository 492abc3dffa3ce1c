"""The figures of one evaluation, or of several side by side."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from care.evaluate.effects.families import ALL
from care.evaluate.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Log = Sequence[Mapping[str, Any]]


def figures(evaluations: Mapping[str, Evaluation], logs: Mapping[str, Log]) -> dict[str, "Figure"]:
    """Figures by name, for every output that all models have; each figure shows its output's name at the top.

    `logs` are the training logs of the models that care trained.
    The cosines of positive pairs are those of the output that the equivariance loss acts on, as in the logs.
    """
    from care.report import positive_cosine_figure  # matplotlib takes a while to load

    first = next(iter(evaluations.values()))
    found = {}
    for output in first.outputs:
        if all(output in e.outputs for e in evaluations.values()):
            for name, figure in _figures_of_output(evaluations, output).items():
                figure.suptitle(f"output: {output}", x=0.995, ha="right", fontsize=9, color="0.4")
                found[f"{name}-{output}"] = figure
    positives = {name: e.arrays.get(f"positive/{e.equivariant_output}") for name, e in evaluations.items()}
    histograms = {name: cosines for name, cosines in positives.items() if cosines is not None}
    curves = {name: _positive_curve(log) for name, log in logs.items() if _positive_curve(log)}
    if histograms:
        found["positive-cosines"] = positive_cosine_figure(histograms, curves)
    return found


def _figures_of_output(evaluations: Mapping[str, Evaluation], output: str) -> dict[str, "Figure"]:
    """The figures of an output that all models have."""
    from care.report import cosine_figure, response_figure, spectrum_figure, wahba_figure

    measured = {name: e.measurement(output) for name, e in evaluations.items()}
    augmentations = next(iter(measured.values())).families[ALL].augmentations
    found = {
        "responses": response_figure({name: m.values() for name, m in measured.items()}),
        "spectrum": spectrum_figure({name: m.spectrum for name, m in measured.items()}),
        "wahba": wahba_figure({name: m.wahba.values for name, m in measured.items()}, augmentations),
        "cosines": cosine_figure({name: e.arrays[f"cosine/{output}"] for name, e in evaluations.items()}),
    }
    if all(f"pictures/{output}" in e.arrays for e in evaluations.values()):
        found["neighbors"] = _neighbors(evaluations, output)
    return found


def _neighbors(evaluations: Mapping[str, Evaluation], output: str) -> "Figure":
    from care.report import neighbors_figure

    one = next(iter(evaluations.values()))
    first, labeled = one.arrays, one.record["retrieval"][output]["class_precision"] is not None
    results = {name: e.arrays[f"pictures/{output}"] for name, e in evaluations.items()}
    right = {name: e.arrays[f"pictures/{output}/right"] for name, e in evaluations.items()}
    return neighbors_figure(
        first["pictures/queries"], first["pictures/jittered"], results, right=right if labeled else None
    )


def _positive_curve(log: Log) -> list[tuple[int, float]]:
    return [(record["epoch"], record["positive_cosine"]) for record in log if record.get("positive_cosine") is not None]
