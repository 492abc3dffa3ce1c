import math

import pytest

from care.report import trade_figure


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
