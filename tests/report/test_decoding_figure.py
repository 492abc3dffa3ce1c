"""What the figure of decoded R² shows is what it was given."""

import pytest

from care.report import decoding_figure

PANEL = {"hue": {"SimCLR": [0.1, 0.3], "CARE": [0.5]}, "blur": {"SimCLR": [-0.2], "CARE": [None]}}


def test_a_bar_at_every_mean_and_a_dot_for_every_seed():
    figure = decoding_figure({"features": PANEL, "embedding": {"hue": PANEL["hue"]}})
    features, embedding = figure.axes
    assert [tick.get_text() for tick in features.get_yticklabels()] == ["hue", "blur"]
    assert sorted(text.get_text() for text in features.texts) == ["0.000", "0.200", "0.500"]
    dots = [list(line.get_xdata()) for line in features.lines if line.get_marker() == "o"]
    bars = [list(line.get_xdata()) for line in features.lines if line.get_marker() != "o"]
    assert dots == [[0.1, 0.3], [0.5], [0.0]]
    assert bars == [pytest.approx([x, x]) for x in (0.2, 0.5, 0.0)]
    assert len(embedding.texts) == 2


def test_rows_of_models_do_not_touch():
    heights = [text.get_position()[1] for text in decoding_figure({"features": PANEL}).axes[0].texts]
    assert heights[0] < heights[1] < 0.5 < heights[2]


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to draw"):
        decoding_figure({"features": {}})
