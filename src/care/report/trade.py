"""Two quantities of which one may have to pay for the other, a point per model."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.look import INK, LABEL, SMALL, dark, finite, literal, model_colors, tidy

Seeds = Sequence[float]
Points = Sequence[tuple[float, float]]


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
    _finish(ax, across, up)
    return figure


def path_figure(paths: Mapping[str, Points], across: str, up: str) -> Figure:
    """A line per model through its points in their order, as over a weight that grows, named at the last of them."""
    known = {name: [point for point in points if len(finite(point)) == 2] for name, points in paths.items()}
    known = {name: points for name, points in known.items() if points}
    if not known:
        raise ValueError("there is nothing to draw: pass at least one model with both quantities")
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax)
    for name, color in model_colors(known).items():
        x, y = zip(*known[name], strict=True)
        ax.plot(x, y, "-", color=color, linewidth=1.2)
        ax.scatter(x, y, [12 * (1 + i) for i in range(len(x))], color=color, zorder=3)
        ax.annotate(
            literal(name), (x[-1], y[-1]), (6, 4), textcoords="offset points", fontsize=SMALL, color=dark(color)
        )
    _finish(ax, across, up)
    return figure


def _finish(ax: Axes, across: str, up: str) -> None:
    ax.margins(0.15)
    ax.set_xlabel(across, fontsize=LABEL, color=INK)
    ax.set_ylabel(up, fontsize=LABEL, color=INK)
