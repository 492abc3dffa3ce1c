"""The held-out ratio of predicted embeddings, by family of augmentations and by the map that predicts them."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.style import (
    INK,
    LABEL,
    SMALL,
    dark,
    finite,
    headline,
    key,
    literal,
    model_colors,
    short,
    tidy,
    wrapped,
)

CEILING = 1.5  # larger values are written at the edge

# Predicting map → one value per augmentation, None if the embeddings are invariant to it.
Ratios = Mapping[str, Sequence[float | None]]


def steering_figure(
    families: Mapping[str, Ratios], pooled: Mapping[str, Mapping[str, float | None]], title: str
) -> Figure:
    """A row per family: the held-out ratio ‖f̂ − F_a‖² / ‖F_a − F‖² of each map, a dot per augmentation and a bar at
    `pooled`. 1 is no better than the identity.

    The axis ends at 1.5 or before. Values beyond it are not drawn but written at the right of their row, after ▸.
    """
    shown = {family: maps for family, maps in families.items() if any(finite(values) for values in maps.values())}
    if not shown:
        raise ValueError("there is nothing to draw: the embeddings are invariant to every augmentation")
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
    everything = (values for family in shown for values in (*shown[family].values(), pooled[family].values()))
    largest = max(value for values in everything for value in finite(values))
    ax.set_xlim(0, min(CEILING, max(1.05, 1.02 * largest)))
    what = "held-out ratio (0: exact, 1: no better than the identity)"
    ax.set_xlabel(f"{what}\ndots: augmentations; bars: all of them, pooled", fontsize=LABEL, color=INK)
    headline(ax, literal(title))
    return figure


def _draw(ax: Axes, height: float, values: Sequence[float], pooled: Sequence[float], color: str) -> None:
    dots, bars = ([value for value in known if value <= CEILING] for known in (values, pooled))
    ax.plot(dots, [height] * len(dots), "o", color=color, markersize=2.2, alpha=0.4, markeredgewidth=0)
    ax.plot(bars, [height] * len(bars), "|", color=color, markersize=9, markeredgewidth=2.2)
    if beyond := _beyond(values, pooled):
        row = ax.get_yaxis_transform()
        ax.text(1.01, height, f"▸ {beyond}", transform=row, fontsize=6, color=dark(color), va="center")


def _beyond(values: Sequence[float], pooled: Sequence[float]) -> str:
    """The values beyond the axis, in words: the bar with its value, and the number of dots with the largest."""
    words = [f"bar {short(value)}" for value in pooled if value > CEILING]
    dots = [value for value in values if value > CEILING]
    if dots:
        words.append(f"{len(dots)} of {len(values)} dots, to {short(max(dots))}")
    return " · ".join(words)
