"""How much of an augmentation's effect is left unexplained, by family and by who predicts it."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.look import INK, LABEL, SMALL, finite, headline, key, literal, model_colors, tidy, wrapped

CEILING = 1.5  # a map that does worse than this is drawn at the edge

# Who predicts → one value per augmentation, None where it moved nothing.
Ratios = Mapping[str, Sequence[float | None]]


def steering_figure(
    families: Mapping[str, Ratios], pooled: Mapping[str, Mapping[str, float | None]], title: str
) -> Figure:
    """A row per family: the held-out ratio of each map, a dot per augmentation and a bar at `pooled`; 1 is no map."""
    shown = {family: maps for family, maps in families.items() if any(finite(values) for values in maps.values())}
    if not shown:
        raise ValueError("there is nothing to draw: no augmentation moved anything")
    names = list(dict.fromkeys(name for maps in shown.values() for name in maps))
    colors = model_colors(names)
    figure = Figure(figsize=(6.4, 1.2 + 0.42 * len(shown)), layout="constrained")
    key(figure, colors)
    ax = figure.add_subplot()
    tidy(ax, "x")
    for row, (family, maps) in enumerate(shown.items()):
        for place, name in enumerate(names):
            height = row + 0.26 * (place - (len(names) - 1) / 2)
            _draw(ax, height, finite(maps.get(name, ())), finite([pooled[family].get(name)]), colors[name])
    ax.axvline(1, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    ax.set_yticks(range(len(shown)), [literal(wrapped(family, 16)) for family in shown], fontsize=SMALL)
    ax.set_ylim(len(shown) - 0.45, -0.55)
    ax.set_xlim(0, min(CEILING, max(1.05, *(v for maps in shown.values() for vs in maps.values() for v in finite(vs)))))
    what = "share of the effect left unexplained (1: no better than not predicting)"
    ax.set_xlabel(f"{what}\ndots: augmentations; bars: all of them, pooled", fontsize=LABEL, color=INK)
    headline(ax, literal(title))
    return figure


def _draw(ax: Axes, height: float, values: Sequence[float], pooled: Sequence[float], color: str) -> None:
    at = [min(value, CEILING) for value in values]
    ax.plot(at, [height] * len(at), "o", color=color, markersize=2.2, alpha=0.4, markeredgewidth=0)
    at = [min(value, CEILING) for value in pooled]
    ax.plot(at, [height] * len(at), "|", color=color, markersize=9, markeredgewidth=2.2)
