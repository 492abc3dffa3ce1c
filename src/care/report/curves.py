"""How training went: every logged quantity over the epochs."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLUMNS = 4
FEW = 40  # up to this many points each gets a dot

Record = Mapping[str, float | int | None]


def curves_figure(log: Sequence[Record]) -> Figure:
    """One panel per quantity, over the `epoch` of each record, with its last value beside its name.

    A quantity missing from a record, or None, NaN or infinite there, has no point there; the curve joins its neighbors.
    """
    if not log or any(record.get("epoch") is None for record in log):
        raise ValueError("the log needs at least one record, and each record its epoch")
    quantities = list(dict.fromkeys(name for record in log for name in record if name != "epoch"))
    columns = max(1, min(COLUMNS, len(quantities)))
    rows = max(1, math.ceil(len(quantities) / columns))
    figure = Figure(figsize=(3.2 * columns, 2.3 * rows + 0.3), layout="constrained")
    for i, quantity in enumerate(quantities, start=1):
        first = figure.axes[0] if figure.axes else None
        _draw(figure.add_subplot(rows, columns, i, sharex=first), quantity, *_points(log, quantity))
    if figure.axes:
        figure.axes[0].set_xlim(*_span([float(record["epoch"] or 0) for record in log]))
    figure.supxlabel("epoch", fontsize=9)
    return figure


def _span(epochs: list[float]) -> tuple[float, float]:
    """All epochs with a margin, half an epoch or more: one epoch alone is in the middle."""
    margin = max(0.5, 0.03 * (max(epochs) - min(epochs)))
    return min(epochs) - margin, max(epochs) + margin


def _points(log: Sequence[Record], quantity: str) -> tuple[list[float], list[float]]:
    """The epochs at which the quantity is a finite number, and these numbers."""
    pairs = [(record["epoch"], record.get(quantity)) for record in log]
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]
    return [x for x, _ in known], [y for _, y in known]


def _draw(ax: Axes, quantity: str, epochs: list[float], values: list[float]) -> None:
    marker = "." if len(values) <= FEW else ""
    ax.plot(epochs, values, linewidth=1.3, marker=marker, markersize=5)
    ax.set_title(quantity.replace("_", " "), fontsize=10, loc="left")
    last = f"{values[-1]:.4g}" if values else "no values"
    ax.set_title(last, fontsize=9, loc="right", color="0.4")
    ax.grid(color="0.9")
    ax.tick_params(labelsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
