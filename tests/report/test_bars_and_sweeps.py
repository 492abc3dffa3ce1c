"""What is drawn is what was passed."""

import math
from statistics import fmean

import pytest

from care.report import bar_figure, sweep_figure


def test_bars_are_means_with_a_dot_per_seed_and_the_papers_dash():
    bars, papers = {"SimCLR": [90.0, 91.0, 92.5], "CARE": [93.0]}, {"SimCLR": 90.98, "CARE": None}
    figure = bar_figure(bars, papers, "top-1, %")
    ax = figure.axes[0]
    assert [patch.get_height() for patch in ax.patches] == pytest.approx([fmean(bars["SimCLR"]), 93.0])
    heights = [list(line.get_ydata()) for line in ax.lines if len(line.get_ydata())]
    assert heights == [bars["SimCLR"], [90.98, 90.98], [93.0]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["SimCLR", "CARE"]
    assert "the axis begins at" in ax.get_ylabel()
    figure.savefig("/dev/null", format="png")


def test_bars_begin_at_zero_where_values_do():
    ax = bar_figure({"a": [1.0], "b": [10.0]}, {}, "quantity").axes[0]
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylabel() == "quantity"
    assert ax.get_legend() is None


def test_values_that_are_no_numbers_are_left_out():
    assert len(bar_figure({"a": [1.0, math.nan], "b": [math.nan]}, {}, "quantity").axes[0].patches) == 1
    with pytest.raises(ValueError, match="nothing to draw"):
        bar_figure({"a": [math.nan]}, {}, "quantity")


def test_a_sweep_is_a_curve_over_the_weights_in_their_order():
    figure = sweep_figure({"γ_f": ({3.0: 0.2, 0.3: 0.5, 30.0: math.nan}, 0.75, {})})
    (ax,) = figure.axes
    curve, base = ax.lines
    assert list(curve.get_xdata()) == [0.3, 3.0]
    assert list(curve.get_ydata()) == [0.5, 0.2]
    assert list(base.get_ydata()) == [0.75, 0.75]
    assert len(sweep_figure({"γ_f": ({3.0: 0.2}, None, {})}).axes[0].lines) == 1
    with pytest.raises(ValueError, match="nothing to draw"):
        sweep_figure({})


def test_variants_of_a_sweep_are_rows_below_it_in_the_color_of_what_they_vary():
    panels = {
        "probe": ({3.0: 0.8}, 0.75, {"two views": 0.77, "no number": math.nan, "SimCLR, longer": 0.79}),
        "γ_f": ({3.0: 0.2}, None, {"SimCLR, longer": 0.9}),
    }
    figure = sweep_figure(panels)
    (curve, _), (_, other) = (figure.axes[:2], figure.axes[2:])
    first = figure.axes[2]
    assert [label.get_text() for label in first.get_yticklabels()] == ["two views", "no number", "SimCLR, longer"]
    base, *dots = first.lines
    assert list(base.get_xdata()) == [0.75, 0.75]
    assert [(*dot.get_xdata(), *dot.get_ydata()) for dot in dots] == [(0.77, 0), (0.79, 2)]
    assert [dot.get_color() for dot in dots] == [curve.lines[0].get_color(), curve.lines[1].get_color()]
    (only,) = other.lines
    assert (*only.get_xdata(), *only.get_ydata()) == (0.9, 2)
    figure.savefig("/dev/null", format="png")
