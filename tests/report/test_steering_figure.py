"""What lies beyond the axis of the steering figure is written beside it, not piled up at its edge."""

import pytest

from care.report import steering_figure


def drawn(ax, marker):
    return [list(map(float, line.get_xdata())) for line in ax.lines if line.get_marker() == marker]


def test_what_is_beyond_the_edge_is_written_beside_its_row(tmp_path):
    families = {"hue": {"steering": [0.2, 1.7, 9.25], "procrustes": [0.1, 0.3]}, "crop": {"steering": [0.4, 1.6]}}
    pooled = {"hue": {"steering": 2.5, "procrustes": 0.2}, "crop": {"steering": 0.9}}
    figure = steering_figure(families, pooled, "mine")
    (ax,) = figure.axes
    assert ax.get_xlim() == (0, 1.5)
    assert drawn(ax, "o") == [[0.2], [0.1, 0.3], [0.4], []]
    assert drawn(ax, "|") == [[], [0.2], [0.9], []]
    assert [text.get_text() for text in ax.texts] == ["▸ bar 2.50 · 2 of 3 dots, to 9.25", "▸ 1 of 2 dots, to 1.60"]
    rows = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "o" and line.get_xdata().size]
    assert [text.get_position()[1] for text in ax.texts] == [rows[0], rows[2]]
    figure.savefig(tmp_path / "figure.png")
    assert all(figure.bbox.x1 >= text.get_window_extent().x1 for text in ax.texts)


@pytest.mark.parametrize(("largest", "limit"), [(0.5, 1.05), (1.2, 1.224), (1.5, 1.5)])
def test_what_fits_is_drawn_whole(largest, limit):
    (ax,) = steering_figure({"hue": {"steering": [0.2, largest]}}, {"hue": {"steering": largest}}, "mine").axes
    assert ax.get_xlim() == (0, pytest.approx(limit))
    assert (drawn(ax, "o"), drawn(ax, "|")) == ([[0.2, largest]], [[largest]])
    assert not ax.texts
