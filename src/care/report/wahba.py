"""The Wahba error of each augmentation, with the models side by side."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from care.report.style import (
    INK,
    LABEL,
    SMALL,
    Number,
    dark,
    finite,
    literal,
    model_colors,
    pale,
    short,
    shortened,
    tidy,
    wrapped,
)

FEW = 30  # up to this many augmentations are described at the side
DESCRIPTION = 64  # characters of a description


def wahba_figure(models: Mapping[str, Sequence[Number]], augmentations: Sequence[str]) -> Figure:
    """W_f = min_R ‖R F − F_a‖: a box per model and a dot per augmentation, as in the paper.

    `models` maps model → a value per augmentation, `augmentations` describes them. An augmentation has one color and
    its dots are joined by a line; the colors run from the smallest mean error, dark, to the largest, bright. A value
    that is None or NaN leaves a gap.
    """
    _check(models, augmentations)
    order = sorted(range(len(augmentations)), key=lambda i: _mean(models, i))
    colors = dict(zip(order, _shades(len(order)), strict=True))
    texts = [shortened(augmentations[i], DESCRIPTION) for i in order] if len(order) <= FEW else []
    width, beside = 1.2 + 1.25 * len(models), 0.3 + 0.056 * max(map(len, texts), default=0)
    figure = Figure(figsize=(width + beside, max(3.6, 0.16 * len(texts) + 0.9)), layout="constrained")
    ax, side = figure.subplots(1, 2, width_ratios=[width, beside])
    _describe(side, texts, [colors[i] for i in order[: len(texts)]])
    _draw_boxes(ax, models)
    for i in order:
        _draw_augmentation(ax, [values[i] for values in models.values()], colors[i])
    _name_models(ax, models)
    return figure


def _check(models: Mapping[str, Sequence[Number]], augmentations: Sequence[str]) -> None:
    if not models or not augmentations:
        raise ValueError("there is nothing to draw: pass at least one model and one augmentation")
    for name, values in models.items():
        if len(values) != len(augmentations):
            raise ValueError(
                f"{name} has {len(values)} values for {len(augmentations)} augmentations: pass one for each"
            )


def _mean(models: Mapping[str, Sequence[Number]], i: int) -> float:
    known = finite(values[i] for values in models.values())
    return fmean(known) if known else math.inf


def _shades(n: int) -> list[str]:
    """n colors of rising lightness, the palest yellow left out."""
    return [to_hex(colormaps["viridis"](0.92 * i / max(1, n - 1))) for i in range(n)]


def _draw_boxes(ax: Axes, models: Mapping[str, Sequence[Number]]) -> None:
    tidy(ax, grid="y")
    colors = model_colors(models)
    for x, (name, values) in enumerate(models.items()):
        line = {"color": pale(colors[name], 0.3), "linewidth": 1.1}
        ax.boxplot(
            [finite(values)],
            positions=[x],
            widths=0.5,
            showfliers=False,  # every value is a dot of its own
            patch_artist=True,
            boxprops={"facecolor": pale(colors[name], 0.88), "edgecolor": pale(colors[name], 0.3), "linewidth": 1.1},
            medianprops={"color": colors[name], "linewidth": 2},
            whiskerprops=line,
            capprops=line,
            manage_ticks=False,
        )
    ax.set_xlim(-0.6, len(models) - 0.4)
    ax.set_ylabel("Wahba error $W_f$ (0 one rotation fits exactly)", fontsize=LABEL, color=INK)


def _draw_augmentation(ax: Axes, values: list[Number], color: str) -> None:
    heights = [math.nan if value is None else value for value in values]
    ax.plot(range(len(values)), heights, color=color, linewidth=0.7, alpha=0.45, zorder=3)
    ax.plot(range(len(values)), heights, "o", color=color, markersize=4.5, markeredgecolor="white", zorder=4)


def _name_models(ax: Axes, models: Mapping[str, Sequence[Number]]) -> None:
    """Each model's name, mean and worst error below its box."""
    ax.set_xticks(range(len(models)), [literal(wrapped(name, 16)) + _summary(models[name]) for name in models])
    for tick, color in zip(ax.get_xticklabels(), model_colors(models).values(), strict=True):
        tick.set(color=dark(color), fontsize=SMALL)
    ax.tick_params(axis="x", length=0)


def _summary(values: Sequence[Number]) -> str:
    known = finite(values)
    return f"\nmean {short(fmean(known))}\nworst {short(max(known))}" if known else "\nno value"


def _describe(ax: Axes, descriptions: list[str], colors: list[str]) -> None:
    """Write the augmentations beside their colors, sorted from the smallest mean error; at least 20 rows high."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(min(0, len(descriptions) - 20) - 0.5, len(descriptions) - 0.5))
    for y, (description, color) in enumerate(zip(descriptions, colors, strict=True)):
        ax.plot([0], [y], "o", color=color, markersize=4.5, clip_on=False)
        ax.annotate(
            literal(description), (0, y), (7, 0), textcoords="offset points", fontsize=6.5, color=INK, va="center"
        )
