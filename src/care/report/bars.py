"""Bars side by side, with a dot per seed and the paper's number, if there is one."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.figure import Figure

from care.report.style import INK, LABEL, SMALL, dark, finite, literal, model_colors, pale, short, tidy, wrapped


def bar_figure(bars: Mapping[str, Sequence[float]], papers: Mapping[str, float | None], quantity: str) -> Figure:
    """A bar per label, as high as the mean of its values; a dot per value, and a dash at the paper's number.

    The axis does not begin at 0 if all values are far above it, so that differences of a point are visible.
    """
    known = {name: found for name, values in bars.items() if (found := finite(values))}
    if not known:
        raise ValueError("there is nothing to draw: pass at least one value")
    figure = Figure(figsize=(max(4.0, 1.0 + 0.95 * len(known)), 3.1), layout="constrained")
    ax = figure.add_subplot()
    tidy(ax, "y")
    for place, (name, color) in enumerate(model_colors(known).items()):
        mean = fmean(known[name])
        ax.bar(place, mean, 0.66, color=pale(color, 0.35))
        ax.plot([place] * len(known[name]), known[name], "o", color=dark(color), markersize=3.5)
        above = (place, max(known[name]))
        ax.annotate(short(mean), above, (0, 5), textcoords="offset points", ha="center", fontsize=LABEL)
        if (paper := papers.get(name)) is not None:
            ax.plot([place - 0.42, place + 0.42], [paper] * 2, color=INK, linewidth=1.4, linestyle=(0, (3, 2)))
    ax.set_xticks(range(len(known)), [literal(wrapped(name, 14)) for name in known], fontsize=SMALL)
    low, high = _limits([value for values in known.values() for value in values] + finite(papers.values()))
    ax.set_ylim(low, high)
    note = f"\n(the axis begins at {short(low)})" if low > 0 else ""
    ax.set_ylabel(quantity + note, fontsize=LABEL, color=INK)
    if any(papers.get(name) is not None for name in known):
        ax.plot([], [], color=INK, linewidth=1.4, linestyle=(0, (3, 2)), label="the paper")
        ax.legend(frameon=False, fontsize=SMALL, loc="upper left")
    return figure


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """The limits of the axis: from 0, or from a little below the lowest value if that is far above 0."""
    low, high = min(values), max(values)
    room = max(high - low, 0.02 * abs(high), 1e-9)
    return (low - 0.6 * room if low > 0.6 * high else min(0.0, low)), high + 0.35 * room
