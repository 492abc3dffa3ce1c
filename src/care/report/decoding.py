"""R² of augmentation parameters, decoded from features."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from care.report.style import LABEL, SMALL, dark, finite, headline, key, literal, model_colors, tidy

Panel = Mapping[str, Mapping[str, Sequence[float]]]


def decoding_figure(panels: Mapping[str, Panel]) -> Figure:
    """A panel per output, a row per parameter of augmentations, and in it a line per model: a dot per seed, and a bar
    at their mean. `panels` maps output → parameter → model → R² per seed.

    R² below 0 is drawn at 0: both mean that nothing can be decoded.
    """
    models = {model: None for panel in panels.values() for row in panel.values() for model in row}
    if not models:
        raise ValueError("there is nothing to draw: pass at least one parameter of one model")
    colors, rows = model_colors(models), max(map(len, panels.values()))
    figure = Figure(figsize=(4.2 * len(panels), 0.2 * rows * len(models) + 1.0), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        _draw_panel(ax, panel, colors)
        headline(ax, literal(title))
    key(figure, colors)
    return figure


def _draw_panel(ax: Axes, panel: Panel, colors: Mapping[str, str]) -> None:
    tidy(ax, "x")
    ax.set(xlim=(-0.03, 1.03), ylim=(len(panel) - 0.4, -0.6))
    ax.set_yticks(range(len(panel)), [literal(name) for name in panel], fontsize=LABEL)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("R² decoded (0 none, 1 exact)", fontsize=LABEL)
    for row, by_model in enumerate(panel.values()):
        for i, (model, color) in enumerate(colors.items()):
            height = row + 0.7 * ((i + 0.5) / len(colors) - 0.5)
            if found := [max(0.0, value) for value in finite(by_model.get(model, ()))]:
                mean, half = fmean(found), 0.28 / len(colors)
                ax.plot(found, [height] * len(found), "o", color=color, alpha=0.45, markersize=3.2, markeredgewidth=0)
                ax.plot([mean, mean], [height - half, height + half], color=color, linewidth=2.2)
                ax.text(1.04, height, f"{mean:.3f}", fontsize=SMALL, color=dark(color), va="center")
