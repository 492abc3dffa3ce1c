"""Where the time of a step goes as the number of processes grows."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from care.report.style import INK, LABEL, PALETTE, SMALL, key, literal, tidy, wrapped

# The parts of a step, from the bottom up: the computation, then the cost of several processes.
PARTS = {
    "compute_ms": "compute",
    "contrast_waited_ms": "InfoNCE with the images of others",
    "gather_waited_ms": "gathering embeddings",
    "batchnorm_waited_ms": "BatchNorm's sums",
    "gradients_waited_ms": "waiting for gradients",
}


def scaling_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A bar per row: the parts of a step, relative to the compute of one process; above it, the efficiency."""
    figure = Figure(figsize=(max(4.6, 1.2 + 1.05 * len(rows)), 3.6), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax, "y")
    colors = dict(zip(PARTS.values(), ("#BFBFBF", *PALETTE), strict=False))
    for place, row in enumerate(rows):
        below = 0.0
        for part, name in PARTS.items():
            height = row[part] / row["compute_ms"]
            ax.bar(place, height, 0.66, below, color=colors[name])
            below += height
        ax.text(place, below, f"{row['efficiency']:.0%}", ha="center", va="bottom", fontsize=SMALL, color=INK)
    labels = [f"{row['processes']}\n{wrapped(literal(str(row['name'])), 14)}" for row in rows]
    ax.set_xticks(range(len(rows)), labels, fontsize=SMALL)
    ax.set_ylabel("step ÷ compute of one", fontsize=LABEL, color=INK)
    key(figure, colors)
    return figure
