"""Training curves of one run: every logged quantity over the epochs."""

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from care.report.training import PANELS

# Column of the log → title of its panel. Other columns keep their name, with spaces for _.
TITLES = PANELS | {
    "loss": "loss, all terms (↓)",
    "info_nce": "InfoNCE (↓)",
    "equivariance": "equivariance loss (↓)",
    "steering": "steering loss (↓)",
    "slice": "slice uniformity (↓)",
    "orbit": "orbit uniformity (↓)",
    "negative_cosine": "cosine of negatives",
    "displacement": "displacement",
    "gram_error": "Gram error (↓)",
    "rankme": "RankMe (↑)",
    "backbone_rankme": "RankMe of the backbone (↑)",
    "effective_rank": "effective rank (↑)",
    "alignment": "alignment",
    "gaussian_uniformity": "uniformity (0 collapsed)",
    "strength": "strength (0 collapsed)",
}
COLUMNS = 4
FEW = 40  # up to this many points each gets a dot

Record = Mapping[str, float | int | None]


def curves_figure(log: Sequence[Record]) -> Figure:
    """One panel per quantity, over the `epoch` of each record, with its last value beside its name.

    A quantity missing from a record, or None, NaN or infinite there, has no point there; the curve joins its neighbors.
    There is no panel for the step, nor for a learning rate that never changes. Quantities that were measured after only
    one of several epochs are written below the panels. Each row of panels fills the width.
    """
    if not log or any(record.get("epoch") is None for record in log):
        raise ValueError("the log needs at least one record, and each record its epoch")
    quantities = _quantities(log)
    once = [name for name in quantities if len(log) > 1 and len(_points(log, name)[1]) == 1]
    rows = _rows([name for name in quantities if name not in once] or quantities)
    figure = Figure(figsize=(3.2 * max(1, *map(len, rows)), 2.3 * len(rows) + 0.3), layout="constrained")
    span = _span([float(record["epoch"] or 0) for record in log])
    for part, row in zip(figure.subfigures(len(rows), 1, squeeze=False)[:, 0], rows, strict=True):
        for i, quantity in enumerate(row, start=1):
            ax = part.add_subplot(1, len(row), i)
            _draw(ax, _title(quantity), *_points(log, quantity))
            ax.set_xlim(*span)
    figure.supxlabel("\n".join(["epoch", *_measured_once(log, once, 50 * max(map(len, rows)))]), fontsize=9)
    return figure


def _title(quantity: str) -> str:
    return TITLES.get(quantity, quantity.replace("_", " "))


def _measured_once(log: Sequence[Record], names: Sequence[str], width: int) -> list[str]:
    """Lines with the quantities that were measured after one epoch only."""
    values = {name: _points(log, name) for name in names}
    said = [f"{_title(name)} {y:.4g}" for name, (_, (y,)) in values.items()]
    return wrap(f"measured once: {', '.join(said)}", width) if said else []


def _quantities(log: Sequence[Record]) -> list[str]:
    """The quantities that get a panel, in the order of the log."""
    names = dict.fromkeys(name for record in log for name in record if name not in ("epoch", "step"))
    constant = len(set(_points(log, "learning_rate")[1])) < 2
    return [name for name in names if not (name == "learning_rate" and constant)]


def _rows(quantities: Sequence[str]) -> list[list[str]]:
    """As few rows as it takes, their lengths as equal as can be: 11 quantities are 4, 4 and 3."""
    rows = max(1, math.ceil(len(quantities) / COLUMNS))
    return [list(map(str, row)) for row in np.array_split(list(quantities), rows)]


def _span(epochs: list[float]) -> tuple[float, float]:
    """All epochs with a margin, half an epoch or more: one epoch alone is in the middle."""
    margin = max(0.5, 0.03 * (max(epochs) - min(epochs)))
    return min(epochs) - margin, max(epochs) + margin


def _points(log: Sequence[Record], quantity: str) -> tuple[list[float], list[float]]:
    """The epochs at which the quantity is a finite number, and these numbers."""
    pairs = [(record["epoch"], record.get(quantity)) for record in log]
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]
    return [x for x, _ in known], [y for _, y in known]


def _draw(ax: Axes, title: str, epochs: list[float], values: list[float]) -> None:
    marker = "." if len(values) <= FEW else ""
    ax.plot(epochs, values, linewidth=1.3, marker=marker, markersize=5)
    ax.set_title(title, fontsize=10, loc="left")
    last = f"{values[-1]:.4g}" if values else "no values"
    ax.set_title(last, fontsize=9, loc="right", color="0.4")
    ax.grid(color="0.9")
    ax.tick_params(labelsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
