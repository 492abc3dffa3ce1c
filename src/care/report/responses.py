"""How the embeddings of models respond to augmentations: the main figure of a measurement."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import NullFormatter, NullLocator

from care.report.style import (
    INK,
    LABEL,
    SMALL,
    Number,
    dark,
    finite,
    headline,
    key,
    literal,
    model_colors,
    short,
    shortened,
    tidy,
    whole_decades,
)

Measures = Mapping[str, Sequence[Number]]  # measure → a value per augmentation


@dataclass(frozen=True)
class Panel:
    """How one measure is drawn; `nothing` is written for an augmentation without a value."""

    measure: str
    title: str
    label: str
    log: bool = False
    reference: float | None = None
    nothing: str = "no value"


TOP = (
    Panel("heldout_ratio", "Held-out ratio", "0 exact · 1 no better than none", reference=1.0, nothing="invariant"),
    Panel("displacement", "Displacement", "E‖f(ax) − f(x)‖ (0 invariant)"),
)
BOTTOM = (
    Panel("composition_error", "Composition error", "0 exact · 1 as bad as none", reference=1.0, nothing="invariant"),
    Panel("gamma", "Relative equivariance $γ_f$", "← more equivariant (log)", log=True, nothing="invariant"),
    Panel("wahba", "Wahba error $W_f$", "← better fit (0 exact)"),
    Panel("gram_error", "Gram error", "← angles kept (log)", log=True),
)
DECADES = 6  # of a logarithmic axis, below the largest value: rounding errors instead of 0 would stretch it
ANY_LINEAR = "heldout_linear"  # drawn in the panel of the held-out ratio


@dataclass(frozen=True)
class Rows:
    """The rows that all panels share: the families from top to bottom, and in each the models."""

    models: Mapping[str, Mapping[str, Measures]]
    families: list[str]
    colors: dict[str, str]

    def height(self, family: str, model: str) -> float:
        """The position of the row; families are 0.8 rows apart."""
        return self.families.index(family) * (len(self.models) + 0.8) + list(self.models).index(model)

    def limits(self) -> tuple[float, float]:
        """From below the last row to above the first."""
        return self.height(self.families[-1], list(self.models)[-1]) + 0.9, -0.9

    def values(self, family: str, model: str, measure: str) -> Sequence[Number] | None:
        """The value for each augmentation, or None if it was not measured."""
        return self.models[model].get(family, {}).get(measure)

    def known(self, family: str, model: str, measure: str) -> list[float]:
        """The values that are numbers."""
        return finite(self.values(family, model, measure) or [])

    def all_known(self, measure: str) -> list[float]:
        """The values of all rows that are numbers."""
        return [
            value for family in self.families for model in self.models for value in self.known(family, model, measure)
        ]

    def measured(self, measure: str) -> bool:
        """Whether any model has this measure."""
        return any(self.values(f, m, measure) for f in self.families for m in self.models)


def response_figure(models: Mapping[str, Mapping[str, Mapping[str, Sequence[Number]]]]) -> Figure:
    """A panel per measure; a row per family and model, with a dot per augmentation and a bar at their mean.

    `models` maps model → family → measure → values per augmentation. None and NaN mean that the model is invariant to
    the augmentation: they are counted in words, never drawn. A measure that no model has gets no panel. A diamond in
    the panel of the held-out ratio is the ratio of any linear map ("heldout_linear"). A logarithmic axis goes down to a
    millionth of the largest value at most; smaller values are counted at its left edge, after ◂.
    """
    families = list(dict.fromkeys(family for measured in models.values() for family in measured))
    rows = Rows(models, families, model_colors(models))
    bands = [band for group in (TOP, BOTTOM) if (band := [p for p in group if rows.measured(p.measure)])]
    if not bands:
        raise ValueError("there is nothing to draw: pass at least one model with one measured family")
    below, above = rows.limits()
    pitch = 0.2 if below - above < 20 else 0.145
    height = pitch * (below - above) + 0.75
    figure = Figure(figsize=(9.5, height * len(bands) + 0.35 * (len(families) > 1)), layout="constrained")
    for part, panels in zip(figure.subfigures(len(bands), 1, squeeze=False)[:, 0], bands, strict=True):
        _draw_band(part, panels, rows)
    if len(families) > 1:
        key(figure, rows.colors)
    return figure


def _draw_band(part: SubFigure, panels: list[Panel], rows: Rows) -> None:
    widths = [1.5 if _is_bounded(panel) else 1.0 for panel in panels]
    axes = part.subplots(1, len(panels), squeeze=False, sharey=True, width_ratios=widths)[0]
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, panel, rows)
    axes[0].set_ylim(*rows.limits())
    _name_rows(axes[0], rows)


def _draw_panel(ax: Axes, panel: Panel, rows: Rows) -> None:
    tidy(ax, grid="x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    linear = rows.all_known(ANY_LINEAR) if _is_bounded(panel) else []
    edge = _limit(ax, panel, rows.all_known(panel.measure) + linear)
    for i, family in enumerate(rows.families):
        top, bottom = rows.height(family, next(iter(rows.models))), rows.height(family, list(rows.models)[-1])
        if i % 2 == 0 and len(rows.families) > 1:
            ax.axhspan(top - 0.9, bottom + 0.9, color="0.965", linewidth=0, zorder=0)
        if not any(rows.values(family, model, panel.measure) for model in rows.models):
            _write(ax, 0.02, (top + bottom) / 2, "not measured", "0.6")
        for model in rows.models:
            _draw_row(ax, panel, edge, rows, family, model)
    if panel.reference is not None:
        ax.axvline(panel.reference, color=INK, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1)
    headline(ax, panel.title)
    if linear:
        ax.set_title("◇ mean for any linear map", fontsize=SMALL, loc="right", color="0.4")
    cut = " · ◂ n below" if ax.get_xlim()[0] < edge else ""
    ax.set_xlabel(panel.label + cut, fontsize=LABEL, color=INK)


def _is_bounded(panel: Panel) -> bool:
    return panel.measure == "heldout_ratio"


def _limit(ax: Axes, panel: Panel, values: list[float]) -> float:
    """Set the limits, and return the least value that the axis can show: a logarithmic axis cannot show 0."""
    if not panel.log:
        ax.set_xlim(0, 1.04 * max([panel.reference or 0, *values]) or 1)
        return -math.inf
    least = max(values, default=1.0) / 10**DECADES
    kept = [value for value in values if value > 0 and value >= least]
    low, high = whole_decades(kept)
    edge = min([low, *kept])  # log10 may round a value up to a whole decade
    ax.set_xscale("log")
    ax.set_xlim(edge, high)
    ax.xaxis.set_minor_formatter(NullFormatter())
    if any(0 < value < edge for value in values):
        _cut(ax, edge, high)
    return edge


def _cut(ax: Axes, edge: float, high: float) -> None:
    """Leave room left of the edge, where no value is drawn, for the number of values beyond it."""
    room = min(0.95, 0.2 * math.log10(high / edge))  # less than a whole decade, which would get a label
    ax.set_xlim(left=edge / 10**room)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.axvline(edge, color="0.7", linewidth=0.8, linestyle=":", zorder=1)


def _draw_row(ax: Axes, panel: Panel, edge: float, rows: Rows, family: str, model: str) -> None:
    height, color = rows.height(family, model), rows.colors[model]
    values = rows.values(family, model, panel.measure) or []
    known = finite(values)
    shown = [value for value in known if value >= edge]
    ax.plot(shown, [height] * len(shown), "o", color=color, alpha=0.45, markersize=3.2, markeredgewidth=0)
    if known and (mean := fmean(known)) >= edge:
        ax.plot([mean, mean], [height - 0.38, height + 0.38], color=color, linewidth=2.2, solid_capstyle="butt")
    if _is_bounded(panel) and (linear := rows.known(family, model, ANY_LINEAR)):
        ax.plot(fmean(linear), height, "D", color=color, markerfacecolor="white", markersize=3.4)
    if below := sum(0 < value < edge for value in known):
        _write(ax, 0.02, height, f"◂ {below}", dark(color))
    _describe(ax, panel, height, dark(color), values)


def _describe(ax: Axes, panel: Panel, height: float, color: str, values: Sequence[Number]) -> None:
    """Write the mean at the right, with how many values have no dot and why; in the row if no value has a dot."""
    known = finite(values)
    counts = {panel.nothing: len(values) - len(known), "at 0": known.count(0.0) if panel.log else 0}
    notes = " · ".join(f"{k} of {len(values)} {word}" if k < len(values) else word for word, k in counts.items() if k)
    empty = sum(counts.values()) == len(values)
    if known:
        _write(ax, 1.03, height, short(fmean(known)) + (f" ({notes})" if notes and not empty else ""), color)
    if notes and empty:
        _write(ax, 0.02, height, notes, color)


def _write(ax: Axes, x: float, height: float, text: str, color: str) -> None:
    """Write text in a row, at a fraction x of the width."""
    ax.text(x, height, text, transform=ax.get_yaxis_transform(), fontsize=6, color=color, va="center")


def _name_rows(ax: Axes, rows: Rows) -> None:
    """Write the families beside their rows; if there is only one family, the models."""
    names, first, last = list(rows.models), next(iter(rows.models)), list(rows.models)[-1]
    if len(rows.families) > 1:
        middles = [(rows.height(family, first) + rows.height(family, last)) / 2 for family in rows.families]
        ax.set_yticks(middles, [literal(family) for family in rows.families], fontsize=LABEL)
        return
    ax.set_yticks(
        [rows.height(rows.families[0], name) for name in names], [literal(shortened(name, 40)) for name in names]
    )
    ax.set_ylabel(literal(rows.families[0]), fontsize=LABEL, color="0.4")
    for tick, name in zip(ax.get_yticklabels(), names, strict=True):
        tick.set(color=dark(rows.colors[name]), fontsize=LABEL)
