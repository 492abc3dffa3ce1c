"""The trade-off between two quantities, with a point per model."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.label_placement import Point, names_apart
from care.report.style import INK, LABEL, finite, model_colors, tidy

STEPS = 12  # places at which a line from a model to its variant is kept clear of names

Seeds = Sequence[float]
Points = Sequence[Point]


def tradeoff_figure(
    points: Mapping[str, tuple[Seeds, Seeds]], across: str, up: str, base: str | None = None, variant: str | None = None
) -> Figure:
    """A point per model at the means of its seeds, with their standard deviations if there are several.

    Lines through the `base` separate the models that are better, or worse, in both quantities. A name that ends in
    `variant` is another training of the model whose name is the rest: its point is filled, those of models as they are
    hollow, a line joins the two, and the name stands beside it alone. The base is then the variant of `base`, if drawn.
    """
    known = {name: (finite(x), finite(y)) for name, (x, y) in points.items()}
    known = {name: pair for name, pair in known.items() if all(pair)}
    if not known:
        raise ValueError("there is nothing to draw: pass at least one model with both quantities")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax)
    means = {name: (fmean(x), fmean(y)) for name, (x, y) in known.items()}
    spreads = {name: (_spread(x), _spread(y)) for name, (x, y) in known.items()}
    model = {name: name.removesuffix(variant or "") for name in known}
    joined = {model[name]: name for name in known if model[name] != name}
    colors = model_colors([*joined, *model.values()])
    for name, (x, y) in means.items():
        dx, dy = spreads[name]
        color, inside = colors[model[name]], "white" if variant and model[name] == name else None
        ax.errorbar(x, y, dy or None, dx or None, fmt="o", color=color, mfc=inside, ms=5, linewidth=1, capsize=3)
    lines = {name: (means[name], means[filled]) for name, filled in joined.items() if name in means}
    for name, ends in lines.items():
        ax.plot(*zip(*ends, strict=True), color=colors[name], linewidth=0.8, zorder=1)
    _finish(ax, across, up)
    base = joined.get(base or "", base)
    dashed = _through(ax, means[base]) if base in means else []
    named = {model[name]: point for name, point in means.items() if joined.get(name, name) == name}
    drawn = [*dashed, *(bar for name in means for bar in _bars(means[name], spreads[name]))]
    names_apart(ax, named, colors, [*drawn, *(place for ends in lines.values() for place in _along(*ends))])
    return figure


def _spread(seeds: Seeds) -> float:
    return stdev(seeds) if len(seeds) > 1 else 0.0


def _along(start: Point, end: Point) -> list[tuple[Point, Point]]:
    """Places along a line, as lines without a length."""
    (x0, y0), (x1, y1) = start, end
    places = [(x0 + k / STEPS * (x1 - x0), y0 + k / STEPS * (y1 - y0)) for k in range(STEPS + 1)]
    return [(place, place) for place in places]


def _bars(mean: Point, spread: Point) -> list[tuple[Point, Point]]:
    """The ends of both error bars."""
    (x, y), (dx, dy) = mean, spread
    return [((x - dx, y), (x + dx, y)), ((x, y - dy), (x, y + dy))]


def _through(ax: Axes, point: Point) -> list[tuple[Point, Point]]:
    """Draw dashed lines through a point, to the edges, and return their ends."""
    (x, y), (left, right), (low, high) = point, ax.get_xlim(), ax.get_ylim()
    ax.axvline(x, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.axhline(y, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.set(xlim=(left, right), ylim=(low, high))
    return [((x, low), (x, high)), ((left, y), (right, y))]


def path_figure(paths: Mapping[str, Points], across: str, up: str) -> Figure:
    """A line per model through its points in order, such as for growing weights; its name stands at the last point."""
    known = {name: [point for point in points if len(finite(point)) == 2] for name, points in paths.items()}
    known = {name: points for name, points in known.items() if points}
    if not known:
        raise ValueError("there is nothing to draw: pass at least one model with both quantities")
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax)
    colors = model_colors(known)
    for name, points in known.items():
        x, y = zip(*points, strict=True)
        ax.plot(x, y, "-", color=colors[name], linewidth=1.2)
        ax.scatter(x, y, [12 * (1 + i) for i in range(len(x))], color=colors[name], zorder=3)
    _finish(ax, across, up)
    names_apart(ax, {name: points[-1] for name, points in known.items()}, colors)
    return figure


def _finish(ax: Axes, across: str, up: str) -> None:
    ax.margins(0.15)
    ax.set_xlabel(across, fontsize=LABEL, color=INK)
    ax.set_ylabel(up, fontsize=LABEL, color=INK)
