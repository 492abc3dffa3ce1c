"""What has no place on the axis of a response is counted in words, and the words cover nothing."""

import math

import pytest

from care.report import response_figure


def dots(ax):
    return [float(x) for line in ax.lines if line.get_marker() == "o" for x in line.get_xdata()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


ALL = ["heldout_ratio", "displacement", "composition_error", "gamma", "wahba", "gram_error"]


@pytest.mark.parametrize(
    "known",
    [[1.0, 2.0, 3.0, 5.0, 2e5, 3e5], [10 ** (i / 4) for i in range(24)]],
    ids=["a gap between the marks", "marks over the whole row"],
)
def test_a_note_covers_no_mark(known):
    figure = response_figure({"m": {"all": {measure: [*known, math.nan] for measure in ALL}}})
    (ax,) = (ax for ax in figure.axes if "γ" in ax.get_title(loc="left"))
    figure.draw_without_rendering()
    (note,) = (text for text in ax.texts if "invariant" in text.get_text())
    covered = note.get_window_extent()
    marks = [ax.transData.transform((x, 0)) for line in ax.lines for x in line.get_xdata()]
    assert len(marks) == len(known) + 2  # dots, and the ends of the bar at the mean
    assert not any(covered.contains(*mark) for mark in marks)


def test_zero_on_a_logarithmic_axis_is_written(tmp_path):
    figure = response_figure({"m": {"all": {"gram_error": [0.0, 0.0]}, "crop": {"gram_error": [0.0, 0.25]}}})
    (ax,) = figure.axes
    assert dots(ax) == [0.25]
    assert texts(ax) == ["0", "at 0", "0.125 (1 of 2 at 0)"]
    figure.savefig(tmp_path / "figure.png")


def test_a_logarithmic_axis_is_not_stretched_by_rounding(tmp_path):
    """What is 0 but for rounding is counted at the left edge, in a part of the axis where no dot is."""
    few, all_of_them = [1e-15, 3e-16, 0.0, 0.02, 0.5], [2e-15] * 5
    figure = response_figure({"m": {"all": {"gamma": few}}, "n": {"all": {"gamma": all_of_them}}})
    (ax,) = figure.axes
    assert dots(ax) == [0.02, 0.5]
    assert texts(ax) == ["◂ 2", "0.104 (1 of 5 at 0)", "◂ 5", "2.00e-15"]
    assert 0.001 < ax.get_xlim()[0] < 0.01
    assert ax.get_xlabel() == "← more equivariant (log) · ◂ n below"
    figure.draw_without_rendering()
    marked = [text.get_window_extent() for text in ax.texts if "◂" in text.get_text()]
    edge = ax.transData.transform((0.01, 0))[0]
    assert all(ax.bbox.x0 <= box.x0 and box.x1 < edge for box in marked)
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("least", [1e-6, math.nextafter(1e-5, 0), 0.01, 1.0])
def test_six_decades_are_drawn_in_full(least):
    (ax,) = response_figure({"m": {"all": {"gamma": [least, 1.0]}}}).axes
    assert dots(ax) == [least, 1.0]
    assert not any("◂" in text for text in [*texts(ax), ax.get_xlabel()])
