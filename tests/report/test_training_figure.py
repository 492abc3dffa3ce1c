"""Curves of several runs side by side show their logs."""

import math

import pytest

from care.report import training_figure

LOGS = {
    "SimCLR": [{"epoch": 1, "info_nce": 5.0, "knn": 0.2}, {"epoch": 2, "info_nce": 4.0, "knn": 0.4}],
    "CARE": [
        {"epoch": 1, "info_nce": 5.5, "equivariance": 0.3, "knn": None},
        {"epoch": 2, "info_nce": 4.5, "equivariance": math.nan, "knn": 0.3},
        {"epoch": 3, "info_nce": 4.2, "equivariance": 0.1, "knn": 0.5},
    ],
}


def curves(figure):
    """Title → the points of each curve, in the order of the models."""
    return {ax.get_title(loc="left"): [line.get_xydata().tolist() for line in ax.lines] for ax in figure.axes}


def test_every_logged_number_is_a_point():
    drawn = curves(training_figure(LOGS))
    assert list(drawn) == ["InfoNCE", "equivariance loss", "kNN (↑)"]
    assert drawn["InfoNCE"] == [[[1, 5.0], [2, 4.0]], [[1, 5.5], [2, 4.5], [3, 4.2]]]
    assert drawn["kNN (↑)"] == [[[1, 0.2], [2, 0.4]], [[2, 0.3], [3, 0.5]]]


def test_numbers_that_are_missing_are_no_points():
    assert curves(training_figure(LOGS))["equivariance loss"] == [[[1, 0.3], [3, 0.1]]]


def test_a_model_has_one_color_in_all_panels():
    axes = training_figure(LOGS).axes
    simclr, care = (line.get_color() for line in axes[0].lines)
    assert simclr != care
    assert [line.get_color() for line in axes[1].lines] == [care]


@pytest.mark.parametrize("logs", [{}, {"SimCLR": []}, {"SimCLR": [{"epoch": 1}]}])
def test_nothing_to_draw_is_told(logs):
    with pytest.raises(ValueError, match="nothing to draw"):
        training_figure(logs)
