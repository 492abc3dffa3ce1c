"""Accuracy on corrupted images, over the strength of the corruption."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.style import INK, LABEL, SMALL, headline, key, literal, model_colors, tidy

# (Strengths, model → accuracies on clean images and at each strength).
Panel = tuple[Sequence[float], Mapping[str, Sequence[float]]]
COLUMNS = 4
# Corruption → the meaning of its strength.
UNITS = {
    **dict.fromkeys(("brightness", "contrast", "saturation"), "factor"),
    "hue": "fraction of the circle",
    "blur": "σ in sides of the view",
    "solarize": "inverted from this level on",
    "crop": "area that is left",
    "noise": "σ, of pixels in [0, 1]",
}


def robustness_figure(panels: Mapping[str, Panel]) -> Figure:
    """A panel per corruption: a curve per model, from the clean images at the left to the strongest corruption."""
    models = {model: None for _, curves in panels.values() for model in curves}
    if not models:
        raise ValueError("there is nothing to draw: pass at least one curve of one model")
    colors, columns = model_colors(models), min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(0.5 + 2.3 * columns, 0.4 + 2.2 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for ax, (title, panel) in zip(axes, panels.items(), strict=False):
        _draw_panel(ax, panel, colors)
        headline(ax, literal(title))
        ax.set_xlabel(UNITS.get(title, "strength"), fontsize=SMALL, color=INK)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    highest = max(accuracy for _, curves in panels.values() for curve in curves.values() for accuracy in curve)
    axes[0].set_ylim(0, min(103.0, 110 * highest + 1))
    figure.supylabel("accuracy, %", fontsize=LABEL, color=INK)
    key(figure, colors)
    return figure


def _draw_panel(ax: Axes, panel: Panel, colors: Mapping[str, str]) -> None:
    strengths, curves = panel
    tidy(ax)
    ax.set_xticks(range(len(strengths) + 1), ["clean", *(f"{strength:.2g}" for strength in strengths)], fontsize=SMALL)
    for model, curve in curves.items():
        ax.plot([100 * accuracy for accuracy in curve], "o-", color=colors[model], linewidth=1.4, markersize=3)
