"""Two quantities of which one may have to pay for the other, a point per model."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.figure import Figure

from care.report.look import INK, LABEL, SMALL, dark, finite, literal, model_colors, tidy

Seeds = Sequence[float]


def trade_figure(points: Mapping[str, tuple[Seeds, Seeds]], across: str, up: str, base: str | None = None) -> Figure:
    """A point per model at the means of its seeds, with their standard deviations where there are several.

    Lines through the `base` part what is better, or worse, than it in both.
    """
    known = {name: (finite(x), finite(y)) for name, (x, y) in points.items()}
    known = {name: pair for name, pair in known.items() if all(pair)}
    if not known:
        raise ValueError("there is nothing to draw: pass at least one model with both quantities")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax)
    for name, color in model_colors(known).items():
        x, y = known[name]
        at = (fmean(x), fmean(y))
        across_seeds, up_seeds = (stdev(seeds) if len(seeds) > 1 else None for seeds in (x, y))
        ax.errorbar(*at, up_seeds, across_seeds, fmt="o", color=color, markersize=6, linewidth=1.2)
        ax.annotate(literal(name), at, (6, 4), textcoords="offset points", fontsize=SMALL, color=dark(color))
    if base in known:
        x, y = known[base]
        ax.axvline(fmean(x), color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        ax.axhline(fmean(y), color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.margins(0.15)
    ax.set_xlabel(across, fontsize=LABEL, color=INK)
    ax.set_ylabel(up, fontsize=LABEL, color=INK)
    return figure
