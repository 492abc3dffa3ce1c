"""The shared style of figures: one color per model, small type, light grids, text taken literally."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

# Okabe and Ito's colors without yellow, which is lost on white: distinct with any kind of color vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
GOOD, BAD, NEUTRAL = "#009E73", "#D55E00", "0.6"

INK, PALE = "0.25", "0.92"
TITLE, LABEL, SMALL = 9.0, 8.0, 7.0  # points

Number = float | int | None


def model_colors(names: Iterable[str]) -> dict[str, str]:
    """One color per name, by its place: the same models in the same order look the same in every figure.

    When the palette is used up, it repeats, mixed with more white each time.
    """
    colors = {}
    for i, name in enumerate(dict.fromkeys(names)):
        colors[name] = pale(PALETTE[i % len(PALETTE)], 1 - 1 / (1 + i // len(PALETTE)))
    return colors


def pale(color: str, white: float) -> str:
    """The color mixed with this share of white."""
    red, green, blue = (white + (1 - white) * channel for channel in to_rgb(color))
    return to_hex((red, green, blue))


def dark(color: str) -> str:
    """The color for text: deeper, so that small type stays readable on white."""
    red, green, blue = (0.75 * channel for channel in to_rgb(color))
    return to_hex((red, green, blue))


def literal(text: str) -> str:
    """The text as it stands: a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, width: int) -> str:
    """At most `width` characters; ends with … if something was left out."""
    return text if len(text) <= width else text[: width - 1].rstrip(" ,") + "…"


def wrapped(text: str, width: int) -> str:
    """Lines of at most `width` characters, broken at spaces, and longer words after _, -, / or a dot."""
    lines = [""]
    words = re.findall(r"\S*\s*", text)
    cut = ((w,) if len(w.rstrip()) <= width else re.findall(r"[^\s_\-/.]*[\s_\-/.]*", w) for w in words)
    for piece in (piece for pieces in cut for piece in pieces):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def finite(values: Iterable[Number]) -> list[float]:
    """The values that are numbers: None, NaN and infinity are left out."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def short(value: float) -> str:
    """Three significant digits: 0.900, 26.8, 1230, 1.20e-05."""
    return f"{value:.0f}" if 100 <= abs(value) < 1e5 else f"{value:#.3g}" if value else "0"


def tidy(ax: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Style the axes: two spines, a light grid behind the data, small ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("0.7")
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=PALE, linewidth=0.7)
    ax.tick_params(which="both", labelsize=SMALL, color="0.7", labelcolor=INK, length=2.5)


def whole_decades(values: Sequence[float]) -> tuple[float, float]:
    """Limits for a logarithmic axis: the powers of ten around the positive values, so that two are always labeled."""
    decades = [math.log10(value) for value in values if value > 0] or [0.0]
    low, high = math.floor(min(decades)), math.ceil(max(decades))
    return 10.0**low, 10.0 ** max(high, low + 1)


def headline(ax: Axes, text: str, color: str = "0.1", pad: float | None = None) -> None:
    """Write a title above the left edge of the panel; `pad` points higher if something else stands there."""
    ax.set_title(text, fontsize=TITLE, loc="left", color=color, pad=pad)


def key(figure: FigureBase, colors: Mapping[str, str]) -> None:
    """Write the names of the models in their colors above the panels, in one line or more."""
    dots = [Line2D([], [], marker="o", linestyle="", markersize=5, color=color) for color in colors.values()]
    columns = max(1, min(len(colors), 110 // (6 + max(map(len, colors)))))
    legend = figure.legend(
        dots,
        [str(i) for i in range(len(dots))],
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=LABEL,
        handletextpad=0.1,
        columnspacing=1.4,
    )
    for text, name in zip(legend.get_texts(), colors, strict=True):
        text.set_text(literal(name))  # set afterwards: a legend drops labels that begin with _
        text.set_color(dark(colors[name]))


def in_axes(ax: Axes, x: float, y: float) -> tuple[float, float]:
    """The point as fractions of the width and the height of the axes, whose limits must be final."""
    across, up = (ax.transScale + ax.transLimits).transform((x, y))
    return float(across), float(up)


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write each (height in data units, text, color) to the right of the axes, moved apart if they would touch.

    Call it when the limits of the axes are final.
    """
    at = [min(1.0, max(0.0, in_axes(ax, ax.get_xlim()[1], y)[1])) for y, _, _ in ends]
    lines = max((text.count("\n") for _, text, _ in ends), default=0) + 1
    inches = ax.bbox.height / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    heights = spread(at, 1.25 * lines * SMALL / 72 / inches)
    for (_, text, color), height in zip(ends, heights, strict=True):
        ax.text(
            1.015, height, text, transform=ax.transAxes, fontsize=SMALL, color=dark(color), va="center", linespacing=1.1
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The nearest heights, by least squares, in the same order and at least `gap` apart.

    Minus k·gap for the k-th from below, the heights must not decrease: neighbors that do are pooled until none does.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    pools: list[list[float]] = []
    for k, i in enumerate(order):
        pools.append([heights[i] - k * gap])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [fmean(pool) for pool in pools for _ in pool]
    moved = {i: level[k] + k * gap for k, i in enumerate(order)}
    return [moved[i] for i in range(len(heights))]
