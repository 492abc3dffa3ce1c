"""Quantities over the weight of a loss."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from care.report.look import INK, LABEL, PALETTE, finite, headline, label_ends, literal, model_colors, short, tidy

# λ → value; the value without the loss, if known; values of variants by name.
Panel = tuple[Mapping[float, float], float | None, Mapping[str, float]]


def sweep_figure(panels: Mapping[str, Panel], base: str = "SimCLR", variable: str = "λ") -> Figure:
    """A panel per quantity: a curve over λ on a logarithmic axis, the value without the loss as a line, and the
    variants as points at the right, with their names once below all panels."""
    if not panels:
        raise ValueError("there is nothing to draw: pass at least one quantity")
    names = list(dict.fromkeys(name for _, _, others in panels.values() for name in others))
    colors = model_colors(["the sweep", "the base", *names])
    figure = Figure(figsize=(2.3 * len(panels) + 0.4, 2.7 + 0.16 * len(names)), layout="constrained")
    for i, (title, panel) in enumerate(panels.items(), start=1):
        ax = figure.add_subplot(1, len(panels), i)
        _draw(ax, panel, base, colors)
        headline(ax, literal(title))
        ax.set_xlabel(variable, fontsize=LABEL, color=INK)
    if names:
        handles = [ax.plot([], [], "D", color=colors[name], markersize=4.5)[0] for name in names]
        figure.legend(
            handles, map(literal, names), loc="outside lower left", ncols=min(3, len(names)), frameon=False, fontsize=8
        )
    return figure


def _draw(ax: Axes, panel: Panel, base: str, colors: Mapping[str, str]) -> None:
    tidy(ax)
    weights, without, others = panel
    known = {weight: value for weight, value in sorted(weights.items()) if finite([value])}
    right = 1.0
    if known:
        ax.plot(list(known), list(known.values()), "o-", color=PALETTE[0], linewidth=1.5, markersize=4)
        ax.set_xscale("log")
        ax.set_xticks(list(known), [f"{weight:g}" for weight in known])
        ax.xaxis.set_minor_locator(NullLocator())
        right = max(known)
    for place, (name, value) in enumerate(others.items(), start=1):
        if finite([value]):
            ax.plot([right * 1.6 ** (place / 2 + 0.5)], [value], "D", color=colors[name], markersize=4.5)
    if without is not None and finite([without]):
        ax.axhline(without, color=colors["the base"], linewidth=1.2, linestyle="--", zorder=1)
        ax.margins(y=0.12)
        label_ends(ax, [(without, f"{literal(base)}\n{short(without)}", colors["the base"])])
