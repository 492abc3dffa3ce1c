"""Accuracies of frozen features on other data sets."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.style import LABEL, SMALL, dark, finite, headline, key, literal, model_colors, tidy

# What was fitted to → model → (accuracy, half the width of its interval or None).
Panel = Mapping[str, Mapping[str, tuple[float, float | None]]]
COLUMNS = 3


def transfer_figure(panels: Mapping[str, Panel]) -> Figure:
    """A panel per data set; a row per what was fitted to and, in it, one per model: a dot with its interval, and its
    number at the right. All panels have one axis."""
    models = {model: None for panel in panels.values() for row in panel.values() for model in row}
    if not models:
        raise ValueError("there is nothing to draw: pass at least one accuracy of one model")
    colors, rows = model_colors(models), max(map(len, panels.values()))
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    height = lines * (0.17 * rows * len(models) + 0.12 * rows + 0.6) + 0.4
    figure = Figure(figsize=(0.6 + 3.6 * columns, height), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for ax, (title, panel) in zip(axes, panels.items(), strict=False):
        _draw_panel(ax, panel, colors)
        headline(ax, literal(title))
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    key(figure, colors)
    return figure


def _draw_panel(ax: Axes, panel: Panel, colors: Mapping[str, str]) -> None:
    tidy(ax, "x")
    ax.set(xlim=(0, 100), ylim=(len(panel) - 0.4, -0.6))
    ax.set_yticks(range(len(panel)), [literal(name) for name in panel], fontsize=LABEL)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("accuracy, %", fontsize=LABEL)
    for row, by_model in enumerate(panel.values()):
        for i, (model, color) in enumerate(colors.items()):
            if model in by_model and finite(by_model[model][:1]):
                mean, spread = by_model[model]
                y = row + 0.7 * ((i + 0.5) / len(colors) - 0.5)
                half = 100 * (spread or 0.0)
                ax.plot([100 * mean - half, 100 * mean + half], [y, y], color=color, linewidth=1.6)
                ax.plot([100 * mean], [y], "o", color=color, markersize=4)
                where = ax.get_yaxis_transform()
                ax.text(1.02, y, f"{100 * mean:.1f}", transform=where, fontsize=SMALL, color=dark(color), va="center")
