import math

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from care.report import path_figure, tradeoff_figure
from care.report.label_placement import names_apart


def test_a_point_per_model_at_its_means_and_lines_through_the_base(tmp_path):
    points = {"SimCLR": ([0.1, 0.3], [80.0, 82.0]), "CARE": ([0.5], [83.0]), "unmeasured": ([math.nan], [1.0])}
    figure = tradeoff_figure(points, "kept", "accuracy", base="SimCLR")
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == ["SimCLR", "CARE"]
    assert [tuple(map(pytest.approx, text.xy)) for text in ax.texts] == [(0.2, 81.0), (0.5, 83.0)]
    straight = [(line.get_xdata(), line.get_ydata()) for line in ax.lines if line.get_linestyle() == "--"]
    assert straight == [([pytest.approx(0.2)] * 2, [0, 1]), ([0, 1], [pytest.approx(81.0)] * 2)]
    figure.savefig(tmp_path / "trade.png", dpi=50)


def test_variants_of_a_model_are_joined_to_it_and_bear_its_name():
    """Hollow points at what they are without it; a variant alone, and a model without one, are points like others."""
    points = {
        "SimCLR": ([0.2], [80.0]), "SimCLR, small": ([0.1], [84.0]), "DCL": ([0.0], [81.0]),
        "CARE, small": ([0.4], [83.0]),
    }  # fmt: skip
    (ax,) = tradeoff_figure(points, "kept", "accuracy", base="SimCLR", variant=", small").axes
    assert {text.get_text(): tuple(text.xy) for text in ax.texts} == {
        "SimCLR": (0.1, 84.0), "DCL": (0.0, 81.0), "CARE": (0.4, 83.0)
    }  # fmt: skip
    dots = {(*line.get_xdata(), *line.get_ydata()): line for line in ax.lines if line.get_marker() == "o"}
    hollow = {place for place, line in dots.items() if line.get_markerfacecolor() == "white"}
    assert hollow == {(0.2, 80.0), (0.0, 81.0)}
    assert dots[0.2, 80.0].get_color() == dots[0.1, 84.0].get_color() != dots[0.4, 83.0].get_color()
    joins = [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in joins] == [([0.2, 0.1], [80.0, 84.0])]
    across = next(line for line in ax.lines if line.get_linestyle() == "--" and line.get_ydata() == [84.0, 84.0])
    assert across.get_xdata() == [0, 1]


def test_names_of_points_that_are_close_hide_neither_each_other_nor_a_point():
    """By the boxes that are drawn, which is not how places are chosen: overlaps are counted, areas are not."""
    points = {f"a method with a long name, {i}": ([0.5 + 0.01 * i], [80.0 + 0.05 * i]) for i in range(6)}
    figure = tradeoff_figure(points, "kept", "accuracy")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    dots = ax.transData.transform([text.xy for text in ax.texts])
    assert [box.count_overlaps(boxes) for box in boxes] == [1] * 6  # with itself
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert all(ax.get_window_extent().contains(*corner) for box in boxes for corner in box.corners())


def test_no_line_to_a_name_goes_through_another_name():
    """The accuracies and R² of a sweep in which two did, looked at every pixel of the lines that are drawn."""
    points = {
        "SimCLR, SGD": ([0.385], [83.4]), "SimCLR, SGD, four views": ([0.641], [78.9]), "SimCLR": ([0.0826], [84.8]),
        "SimCLR, four views": ([0.0696], [85.0]), "SimCLR, four views, Muon": ([-0.0188], [88.1]),
        "CARE, all views compared": ([0.0152], [85.0]), "split: hue": ([0.620], [83.3]),
        "split: hue, composed": ([0.634], [83.0]),
    }  # fmt: skip
    figure = tradeoff_figure(points, "R² of hue", "accuracy", base="SimCLR")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = {text.get_text(): Text.get_window_extent(text) for text in ax.texts}
    for text in ax.texts:
        (x0, y0), (x1, y1) = text.arrow_patch.get_path().interpolated(200).vertices[[0, -1]]
        along = [(x0 + k / 200 * (x1 - x0), y0 + k / 200 * (y1 - y0)) for k in range(201)]
        others = [box for name, box in boxes.items() if name != text.get_text()]
        assert not any(box.contains(*place) for place in along for box in others), text.get_text()


def test_names_in_one_line_are_apart():
    """A second name that would begin a pixel behind the end of the first is put elsewhere."""

    def placed(points):
        ax = Figure(dpi=100).add_axes((0, 0, 1, 1), xlim=(0, 640), ylim=(0, 480))  # in pixels
        names_apart(ax, points, dict.fromkeys(points, "C0"))
        return [Text.get_window_extent(text) for text in ax.texts]

    (alone,) = placed({"keep hue": (100.0, 200.0)})
    first, second = placed({"keep hue": (100.0, 200.0), "AugSelf": (101 + alone.width, 195.0)})
    assert first.bounds == alone.bounds
    assert not Bbox.from_extents(first.x0, first.y0, first.x1 + 3, first.y1).overlaps(second)


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to draw"):
        tradeoff_figure({"a": ([], [1.0])}, "kept", "accuracy")


def test_a_path_per_model_is_named_at_its_end():
    paths = {"AugSelf": [(0.1, 80.0), (math.nan, 1.0), (0.4, 79.0)], "SimCLR": [(0.0, 81.0)], "unmeasured": []}
    (ax,) = path_figure(paths, "kept", "accuracy").axes
    assert {text.get_text(): tuple(text.xy) for text in ax.texts} == {"AugSelf": (0.4, 79.0), "SimCLR": (0.0, 81.0)}
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.1, 0.4], [0.0]]
    with pytest.raises(ValueError, match="nothing to draw"):
        path_figure({"a": []}, "kept", "accuracy")
