"""Cosines between embeddings: before and after an augmentation on the circle, and between positives."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from torch import Tensor

from care.report.style import (
    INK,
    LABEL,
    SMALL,
    Number,
    dark,
    headline,
    label_ends,
    literal,
    model_colors,
    short,
    shortened,
    tidy,
)

BINS = 50  # from `_lowest` to 1, the same for every model

# A scale that can show 0, and on which small values are visible beside large ones.
ROOT = (lambda x: np.sqrt(np.maximum(x, 0)), np.square)


def cosine_figure(models: Mapping[str, Float[Tensor, "augmentations n"]]) -> Figure:
    """The densities of cos∠(f(x), f(a(x))), and their variance σ² within each augmentation.

    An augmentation that rotates every point of the circle by one angle has σ² = 0. Left, per model: a line per
    augmentation, all of them together filled, from the tenth below the least cosine of any model to 1. Right: σ² of
    each augmentation, its dots joined over the models, and the mean over augmentations as a bar. Variances are means
    of squares (no n − 1).
    """
    if not models:
        raise ValueError("there is nothing to draw: pass the cosines of at least one model")
    if len({len(values) for values in models.values()}) > 1:
        raise ValueError("the models have different numbers of augmentations: measure all with the same ones")
    cosines = {name: _checked(name, values) for name, values in models.items()}
    figure = Figure(figsize=(7.5, 0.9 + 1.15 * len(models)), layout="constrained")
    grid = figure.add_gridspec(len(models), 2, width_ratios=[1.35, 1])
    low = _lowest(cosines.values())
    highest = max(max(_density(row, low)[1]) for values in cosines.values() for row in values)
    for i, (name, color) in enumerate(model_colors(models).items()):
        ax = figure.add_subplot(grid[i, 0])
        _draw_densities(ax, name, cosines[name], low, color)
        ax.set_yscale("function", functions=ROOT)
        ax.set_ylim(0, 1.05 * highest)
        ax.set_yticks(*_squares(highest, 4))
        ax.tick_params(labelbottom=i == len(models) - 1)
    ax.set_xlabel("cos∠(f(x), f(ax))  (1 invariant)", fontsize=LABEL, color=INK)
    figure.supylabel("density (√ scale)", fontsize=LABEL, color=INK)
    _draw_variances(figure.add_subplot(grid[:, 1]), {name: c.var(dim=1, correction=0) for name, c in cosines.items()})
    return figure


def positive_cosine_figure(
    histograms: Mapping[str, Float[Tensor, " _"]], curves: Mapping[str, Sequence[tuple[float | int, Number]]]
) -> Figure:
    """The cosines of positive pairs per model, and below them their average over training.

    `histograms` maps model → a cosine per pair, `curves` model → (epoch, mean cosine) of one pair of augmentations. A
    model without a curve is left out below, and without any curve there is no such panel. Each histogram has its own
    height; all of them run from the tenth below the least cosine of any model to 1.
    """
    known = {name: points for name, curve in curves.items() if (points := _known(curve))}
    if not histograms and not known:
        raise ValueError("there is nothing to draw: pass the cosines or the training curve of at least one model")
    colors = model_colors([*histograms, *curves])
    columns = max(1, min(3, len(histograms)))
    rows = math.ceil(len(histograms) / columns)
    heights = [1.75 * rows] * bool(histograms) + [2.3] * bool(known)
    figure = Figure(figsize=(max(5.0, 2.6 * columns), sum(heights)), layout="constrained")
    parts = list(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    cosines = {name: _checked(name, values) for name, values in histograms.items()}
    for i, (name, values) in enumerate(cosines.items(), start=1):
        ax = parts[0].add_subplot(rows, columns, i)
        _draw_histogram(ax, name, values, _lowest(cosines.values()), colors[name])
    if known:
        _draw_curves(parts[-1].subplots(), known, colors)
    return figure


def _checked(name: str, cosines: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    if cosines.numel() == 0 or not torch.isfinite(cosines).all():
        raise ValueError(f"the cosines of {name} must be one or more finite numbers")
    return cosines.detach().cpu().double()


def _known(curve: Sequence[tuple[float | int, Number]]) -> list[tuple[float, float]]:
    """The points of the curve whose value is a number."""
    return [(float(epoch), float(value)) for epoch, value in curve if value is not None and math.isfinite(value)]


def _lowest(cosines: Iterable[Float[Tensor, "*_"]]) -> float:
    """Where the axis of all models starts: the tenth below every cosine, at least −1 and below 1."""
    least = min(values.min().item() for values in cosines)
    return max(-10, min(9, math.floor(10 * least))) / 10


def _shares(values: Float[Tensor, " n"], low: float) -> tuple[list[float], Float[Tensor, " bins"]]:
    """The edges of the bins over [low, 1], and the share of the values in each; rounding beyond ±1 counts as ±1."""
    counts, edges = torch.histogram(values.clamp(low, 1), bins=BINS, range=(low, 1.0))
    return edges.tolist(), counts / counts.sum()


def _density(values: Float[Tensor, " n"], low: float) -> tuple[list[float], list[float]]:
    """The edges of the bins over [low, 1], and the density in each."""
    edges, shares = _shares(values, low)
    return edges, (shares * BINS / (1 - low)).tolist()


def _squares(largest: float, ticks: int) -> tuple[list[float], list[str]]:
    """At most so many ticks from 0 to `largest`, evenly spaced on the square-root scale, and their labels."""
    roots = MaxNLocator(ticks, steps=[1, 2, 5, 10]).tick_values(0, math.sqrt(largest))
    places = [float(root) ** 2 for root in roots if root**2 <= 1.05 * largest]
    return places, [f"{place:.3g}" for place in places]


def _draw_densities(ax: Axes, name: str, cosines: Float[Tensor, "augmentations n"], low: float, color: str) -> None:
    tidy(ax, grid="x")
    edges, density = _density(cosines.flatten(), low)
    ax.stairs(density, edges, fill=True, color=color, alpha=0.3)
    for values in cosines:
        ax.stairs(_density(values, low)[1], edges, color=color, linewidth=0.6, alpha=0.5)
    mean = cosines.var(dim=1, correction=0).mean().item()
    headline(ax, literal(shortened(name, 44)), dark(color))  # above: inside there are densities on either side
    ax.set_title(f"mean σ² {short(mean)}", fontsize=SMALL, loc="right", color=INK)
    ax.set_xlim(low, 1)


def _draw_variances(ax: Axes, variances: Mapping[str, Float[Tensor, " augmentations"]]) -> None:
    """A row per model, level with its densities."""
    tidy(ax, grid="x")
    for paired in torch.stack(list(variances.values())).mT.tolist():
        ax.plot(paired, range(len(paired)), color="0.8", linewidth=0.6, zorder=1)
    for y, (name, color) in enumerate(model_colors(variances).items()):
        values, mean = variances[name].tolist(), variances[name].mean().item()
        ax.plot(values, [y] * len(values), "o", color=color, alpha=0.6, markersize=4, markeredgewidth=0)
        ax.plot([mean, mean], [y - 0.16, y + 0.16], color=color, linewidth=2.4, solid_capstyle="butt")
    ax.set(yticks=[], ylim=(len(variances) - 0.5, -0.5))
    largest = max(values.max().item() for values in variances.values()) or 1.0
    ax.set_xscale("function", functions=ROOT)
    ax.set_xlim(0, 1.05 * largest)
    ax.set_xticks(*_squares(largest, 6))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("σ² per augmentation (√ scale; 0 one angle for all)", fontsize=LABEL, color=INK)


def _draw_histogram(ax: Axes, name: str, cosines: Float[Tensor, " n"], low: float, color: str) -> None:
    tidy(ax, grid="x")
    edges, shares = _shares(cosines, low)
    ax.stairs(shares.tolist(), edges, fill=True, color=color, alpha=0.85)
    mean = cosines.mean().item()
    ax.axvline(mean, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set(xlim=(low, 1), ylim=(0, 1.25 * shares.max().item()))  # the mean is written above the highest bin
    ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    headline(ax, literal(shortened(name, 26)), dark(color))
    ax.set_xlabel("positive cosine (1 invariant)", fontsize=SMALL, color=INK)
    x, side = (0.03, "left") if mean > (low + 1) / 2 else (0.97, "right")  # away from the line
    ax.text(x, 0.98, f"mean {short(mean)}", transform=ax.transAxes, fontsize=SMALL, color=INK, va="top", ha=side)


def _draw_curves(ax: Axes, curves: Mapping[str, list[tuple[float, float]]], colors: Mapping[str, str]) -> None:
    tidy(ax)
    for name, points in curves.items():
        ax.plot(*zip(*points, strict=True), color=colors[name], linewidth=1.5, marker="." if len(points) < 40 else "")
    ax.xaxis.set_major_locator(MaxNLocator(7, integer=True, min_n_ticks=1))
    ax.set_xlabel("epoch", fontsize=LABEL, color=INK)
    ax.set_ylabel("mean positive cosine", fontsize=LABEL, color=INK)
    headline(ax, "while training: one fixed pair of augmentations; above, all pairs")
    ax.margins(x=0.01)
    ends = [(points[-1][1], literal(shortened(name, 30)), colors[name]) for name, points in curves.items()]
    label_ends(ax, ends)
