"""Quantities over the weight of a loss, and for other variants."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from care.report.style import INK, LABEL, PALETTE, SMALL, dark, finite, headline, label_ends, literal, short, tidy

# λ → value; the value without the loss, if known; values of variants by name.
Panel = tuple[Mapping[float, float], float | None, Mapping[str, float]]
SWEEP, BASE = PALETTE[0], PALETTE[1]
WITHOUT = "SimCLR"  # the method without the loss


def sweep_figure(panels: Mapping[str, Panel], variable: str = "λ") -> Figure:
    """A column per quantity: above, a curve over λ on a logarithmic axis; below, a row per variant, named at the left.
    The value without the loss is a dashed line through both, and variants of SimCLR have its color."""
    if not panels:
        raise ValueError("there is nothing to draw: pass at least one quantity")
    names = list(dict.fromkeys(name for _, _, others in panels.values() for name in others))
    heights = (2.4, 0.45 + 0.16 * len(names)) if names else (2.4,)
    figure = Figure(figsize=(2.0 * len(panels) + (2.4 if names else 0.4), sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), len(panels), squeeze=False, height_ratios=heights)
    for column, (title, (weights, without, others)) in enumerate(panels.items()):
        known = without if without is not None and finite([without]) else None
        _draw_curve(axes[0, column], weights, known)
        axes[0, column].set_xlabel(variable, fontsize=LABEL, color=INK)
        headline(axes[0, column], literal(title))
        if names:
            _draw_rows(axes[1, column], names if column == 0 else [""] * len(names), known)
            _draw_variants(axes[1, column], {names.index(name): others[name] for name in others}, names)
    return figure


def _draw_curve(ax: Axes, weights: Mapping[float, float], without: float | None) -> None:
    tidy(ax)
    known = {weight: value for weight, value in sorted(weights.items()) if finite([value])}
    if known:
        ax.plot(list(known), list(known.values()), "o-", color=SWEEP, linewidth=1.5, markersize=4)
        ax.set_xscale("log")
        ax.set_xticks(list(known), [f"{weight:g}" for weight in known])
        ax.xaxis.set_minor_locator(NullLocator())
    if without is not None:
        ax.axhline(without, color=BASE, linewidth=1.2, linestyle="--", zorder=1)
        ax.margins(y=0.12)
        label_ends(ax, [(without, f"{literal(WITHOUT)}\n{short(without)}", BASE)])


def _draw_rows(ax: Axes, names: list[str], without: float | None) -> None:
    tidy(ax, "x")
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), [literal(name) for name in names], fontsize=SMALL)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.margins(x=0.12)
    if without is not None:
        ax.axvline(without, color=BASE, linewidth=1.2, linestyle="--", zorder=1)


def _draw_variants(ax: Axes, values: Mapping[int, float], names: list[str]) -> None:
    """A dot per row, and its number at the right."""
    for row, value in values.items():
        if finite([value]):
            color = BASE if names[row].startswith(WITHOUT) else SWEEP
            ax.plot([value], [row], "o", color=color, markersize=4)
            ax.text(
                1.02,
                row,
                short(value),
                transform=ax.get_yaxis_transform(),
                fontsize=SMALL,
                color=dark(color),
                va="center",
            )
