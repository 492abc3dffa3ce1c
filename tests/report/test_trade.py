import math

import pytest

from care.report import path_figure, trade_figure


def test_a_point_per_model_at_its_means_and_lines_through_the_base(tmp_path):
    points = {"SimCLR": ([0.1, 0.3], [80.0, 82.0]), "CARE": ([0.5], [83.0]), "unmeasured": ([math.nan], [1.0])}
    figure = trade_figure(points, "kept", "accuracy", base="SimCLR")
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == ["SimCLR", "CARE"]
    assert [tuple(map(pytest.approx, text.xy)) for text in ax.texts] == [(0.2, 81.0), (0.5, 83.0)]
    straight = [(line.get_xdata(), line.get_ydata()) for line in ax.lines if line.get_linestyle() == "--"]
    assert straight == [([pytest.approx(0.2)] * 2, [0, 1]), ([0, 1], [pytest.approx(81.0)] * 2)]
    figure.savefig(tmp_path / "trade.png", dpi=50)


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to draw"):
        trade_figure({"a": ([], [1.0])}, "kept", "accuracy")


def test_a_path_per_model_is_named_at_its_end():
    paths = {"AugSelf": [(0.1, 80.0), (math.nan, 1.0), (0.4, 79.0)], "SimCLR": [(0.0, 81.0)], "unmeasured": []}
    (ax,) = path_figure(paths, "kept", "accuracy").axes
    assert {text.get_text(): tuple(text.xy) for text in ax.texts} == {"AugSelf": (0.4, 79.0), "SimCLR": (0.0, 81.0)}
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.1, 0.4], [0.0]]
    with pytest.raises(ValueError, match="nothing to draw"):
        path_figure({"a": []}, "kept", "accuracy")
