"""What the figures of transfer and robustness show is what they were given."""

import pytest

from care.report import robustness_figure, transfer_figure

PANEL = {"all labels": {"SimCLR": (0.5, None), "CARE": (0.6, None)}, "5-way 1-shot": {"SimCLR": (0.4, 0.1)}}


def test_a_dot_for_every_accuracy_and_a_line_for_its_interval():
    figure = transfer_figure({"flowers": PANEL, "cifar": PANEL, "pets": PANEL, "stl": PANEL})
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in panels] == ["flowers", "cifar", "pets", "stl"]
    assert [text.get_text() for text in panels[0].texts] == ["50.0", "60.0", "40.0"]
    dots = [list(line.get_xdata()) for line in panels[0].lines if line.get_marker() == "o"]
    lines = [list(line.get_xdata()) for line in panels[0].lines if line.get_marker() != "o"]
    assert dots == [[50.0], [60.0], [40.0]]
    assert lines[2] == pytest.approx([30.0, 50.0])


def test_a_curve_for_every_model_from_the_clean_images_on():
    curves = {"SimCLR": (0.9, 0.5, 0.2), "CARE": (0.8, 0.7, 0.6)}
    (panel,) = robustness_figure({"hue": ((0.1, 0.5), curves)}).axes
    assert [list(line.get_ydata()) for line in panel.lines] == [
        pytest.approx([90, 50, 20]),
        pytest.approx([80, 70, 60]),
    ]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["clean", "0.1", "0.5"]


@pytest.mark.parametrize("figure", [transfer_figure, robustness_figure])
def test_nothing_to_draw_is_said(figure):
    with pytest.raises(ValueError, match="nothing to draw"):
        figure({})
