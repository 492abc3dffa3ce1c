"""Which measures differ between two models, and by how much."""

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.style import BAD, GOOD, INK, LABEL, NEUTRAL, SMALL, Number, finite, headline, literal, tidy

Difference = tuple[str, Number, Number, Number, Literal["lower", "higher"], bool]


def differences_figure(rows: Sequence[Difference], title: str = "") -> Figure:
    """A row per measure: (name, difference, low, high, which direction is better, whether the difference is certain),
    with low … high its 95 % interval.

    Right is always better. Each row has its own scale, on which the end of the interval that is farther from zero is at
    ±1, so that the figure shows whether the interval crosses zero; the numbers stand beside it. A certain difference is
    green or red, any other gray. No interval is drawn if its ends are None or NaN; a difference that is None or NaN is
    called undefined.
    """
    if not rows:
        raise ValueError("there is nothing to draw: pass at least one difference")
    width = max(
        6.4, 4.6 + 0.07 * max(len(name) for name, *_ in rows)
    )  # of inches, so that names leave room for the rest
    figure = Figure(figsize=(width, 0.27 * len(rows) + 0.85 + 0.4 * bool(title)), layout="constrained")
    ax = figure.subplots()
    tidy(ax)
    ax.grid(visible=False)
    ax.axvline(0, color=INK, linewidth=0.9)
    for y, row in enumerate(rows):
        _draw_row(ax, y, row)
    ax.set(xlim=(-1.08, 1.08), ylim=(len(rows) - 0.4, -0.6))
    arrows = {"lower": "↓", "higher": "↑"}
    names = [f"{literal(name)} {arrows[better]}" for name, *_, better, _ in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=LABEL)
    ax.set_xticks([-0.6, 0, 0.6], ["← worse", "no difference", "better →"])
    ax.tick_params(length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("each row has its own scale", fontsize=SMALL, color="0.4")
    ax.text(1.02, 1.02, "difference  [95 % interval]", transform=ax.transAxes, fontsize=SMALL, color="0.4")
    headline(ax, literal(title), pad=20)  # above the line before: both may be long
    return figure


def _draw_row(ax: Axes, y: int, row: Difference) -> None:
    _, difference, low, high, better, certain = row
    color, text, sign = NEUTRAL, "undefined", 1 if better == "higher" else -1
    ends = finite([low, high])
    if found := finite([difference]):
        scale = sign * max(map(abs, (*found, *ends))) or 1
        text = f"{_signed(found[0], found[0])}  (no interval)"
        if len(ends) == 2:
            color = NEUTRAL if not certain else GOOD if sign * found[0] > 0 else BAD
            ax.plot([end / scale for end in ends], [y, y], color=color, linewidth=2.2, solid_capstyle="round")
            text = "{}  [{}, {}]".format(*(_signed(x, ends[1] - ends[0] or found[0]) for x in (*found, *ends)))
        ax.plot([found[0] / scale], [y], "o", color=color, markersize=5.5, markeredgecolor="white")
    ax.text(1.02, y, text, transform=ax.get_yaxis_transform(), fontsize=SMALL, color=INK, va="center")


def _signed(value: float, width: float) -> str:
    """The value with its sign, as precise as two digits of the width of its interval."""
    decimals = 0 if width == 0 else max(0, 1 - math.floor(math.log10(abs(width))))
    text = f"{value:+.{decimals}f}" if decimals <= 5 else f"{value:+.1e}"
    return text.replace("-", "−") if value else "0"
