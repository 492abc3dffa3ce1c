"""Training curves of several models side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from care.report.style import headline, key, model_colors, tidy

# Column of a run's log → title of its panel.
PANELS = {
    "info_nce": "InfoNCE",
    "equivariance": "equivariance loss",
    "knn": "kNN (↑)",
    "gamma": "$γ_f$ (↓)",
    "heldout_ratio": "held-out ratio (↓)",
    "positive_cosine": "cosine of positives",
}


def training_figure(logs: Mapping[str, Sequence[Mapping[str, Any]]], panels: Mapping[str, str] = PANELS) -> Figure:
    """A panel per quantity, a curve per model over its epochs. `logs` maps model → the records of its log, `panels`
    column of the log → title of its panel.

    A quantity that no model has gets no panel. None and NaN give no point; the curve joins their neighbors.
    """
    curves = {
        quantity: {name: points for name, log in logs.items() if (points := _points(log, quantity))}
        for quantity in panels
    }
    drawn = {quantity: by_model for quantity, by_model in curves.items() if by_model}
    if not drawn:
        raise ValueError("there is nothing to draw: pass the log of at least one run with at least one epoch")
    columns = min(3, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    figure = Figure(figsize=(9.5, 1.9 * rows + 0.5), layout="constrained")
    colors = model_colors(logs)
    for i, (quantity, by_model) in enumerate(drawn.items(), start=1):
        _draw(figure.add_subplot(rows, columns, i), panels[quantity], by_model, colors)
    figure.supxlabel("epoch", fontsize=8)
    key(figure, colors)
    return figure


def _points(log: Sequence[Mapping[str, Any]], quantity: str) -> list[tuple[float, float]]:
    """(epoch, value) where the value is a number."""
    pairs = [(float(record["epoch"]), record.get(quantity)) for record in log]
    return [(epoch, float(value)) for epoch, value in pairs if value is not None and math.isfinite(value)]


def _draw(ax: Axes, title: str, by_model: Mapping[str, list[tuple[float, float]]], colors: Mapping[str, str]) -> None:
    tidy(ax)
    for name, points in by_model.items():
        ax.plot(*zip(*points, strict=True), color=colors[name], linewidth=1.5, marker="o", markersize=3)
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if title != PANELS["info_nce"] else None)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    headline(ax, title)
