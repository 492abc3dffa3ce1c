import math

import pytest

from care.report.curves import curves_figure
from care.report.drawing import draw


def log(epochs):
    return [
        {
            "epoch": k,
            "loss": 5 / k + 1,
            "info_nce": 4 / k + 1 if k != 3 else math.nan,
            "equivariance": 0.3 * math.exp(-k / 20) if k != 2 else math.inf,
            "positive_cosine": 1 - 0.5 / k,
            "heldout_ratio": None if k % 5 else 1 / k,
            "learning_rate": 1e-3 * math.cos(math.pi * (k - 1) / (2 * epochs)) ** 2,
            **({"knn": 0.1 + 0.5 * k / epochs} if k % 5 == 0 else {}),
        }
        for k in range(1, epochs + 1)
    ]


TITLES = {
    "loss": "loss, all terms (↓)",
    "info_nce": "InfoNCE (↓)",
    "equivariance": "equivariance loss (↓)",
    "positive_cosine": "cosine of positives",
    "heldout_ratio": "held-out ratio (↓)",
    "learning_rate": "learning rate",
    "knn": "kNN (↑)",
}


def panels(figure):
    return {ax.get_title(loc="left"): ax for ax in figure.axes}


def points(ax):
    return [(float(x), float(y)) for line in ax.lines for x, y in zip(*line.get_data(), strict=True)]


@pytest.mark.parametrize("epochs", [2, 7, 200])
def test_a_panel_per_quantity_with_all_its_values(epochs, tmp_path):
    figure = curves_figure(log(epochs))
    shown = panels(figure)
    below, panelled = figure.get_supxlabel().replace("\n", " "), set()
    for name in {name for record in log(epochs) for name in record if name != "epoch"}:
        values = [(r["epoch"], r.get(name)) for r in log(epochs)]
        known = [(x, y) for x, y in values if y is not None and math.isfinite(y)]
        if len(known) == 1:
            assert f"{TITLES[name]} {known[0][1]:.4g}" in below
            continue
        panelled.add(TITLES[name])
        assert points(shown[TITLES[name]]) == known
    assert set(shown) == panelled
    draw(figure, tmp_path / "curves.png", "png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_the_last_value_is_named():
    shown = panels(curves_figure([{"epoch": 1, "loss": 2.0, "knn": None}, {"epoch": 2, "loss": 1.23456}]))
    assert shown[TITLES["loss"]].get_title(loc="right") == "1.235"
    assert shown[TITLES["knn"]].get_title(loc="right") == "no values"


@pytest.mark.parametrize(("rates", "shown"), [([1e-3], False), ([1e-3] * 3, False), ([1e-3, 1e-3, 1e-4], True)])
def test_what_says_nothing_has_no_panel(rates, shown):
    records = [{"epoch": k, "step": 39 * k, "loss": 1.0, "learning_rate": rate} for k, rate in enumerate(rates, 1)]
    assert list(panels(curves_figure(records))) == [TITLES["loss"]] + [TITLES["learning_rate"]] * shown


def test_a_quantity_without_words_keeps_its_name():
    assert list(panels(curves_figure([{"epoch": 1, "my_own_loss": 1.0}]))) == ["my own loss"]


@pytest.mark.parametrize("quantities", [1, 2, 5, 9])
def test_no_panel_is_empty(quantities):
    figure = curves_figure([{"epoch": k, **{f"q{i}": float(i) for i in range(quantities)}} for k in (1, 2)])
    assert len(figure.axes) == quantities
    assert all(len(points(ax)) == 2 for ax in figure.axes)


@pytest.mark.parametrize(("quantities", "rows"), [(5, [3, 2]), (11, [4, 4, 3])])
def test_every_row_of_panels_fills_the_width(quantities, rows):
    figure = curves_figure([{"epoch": 1, **{f"q{i}": float(i) for i in range(quantities)}}])
    figure.draw_without_rendering()
    by_height = {}
    for ax in figure.axes:
        by_height.setdefault(round(ax.bbox.y0), []).append(ax.bbox)
    assert [len(row) for row in by_height.values()] == rows
    for row in by_height.values():
        assert row[0].x0 < 0.1 * figure.bbox.width
        assert row[-1].x1 > 0.97 * figure.bbox.width


def test_a_single_epoch_can_be_seen():
    (ax,) = curves_figure([{"epoch": 1, "loss": 2.0}]).axes
    assert ax.lines[0].get_marker() == "."
    assert ax.get_xlim() == (0.5, 1.5)
    assert [tick for tick in ax.get_xticks() if 0.5 < tick < 1.5] == [1]


@pytest.mark.parametrize("bad", [[], [{"loss": 1.0}], [{"epoch": 1, "loss": 1.0}, {"epoch": None}]], ids=str)
def test_a_log_without_epochs_is_refused(bad):
    with pytest.raises(ValueError, match="each record its epoch"):
        curves_figure(bad)


def test_a_log_of_nothing_but_epochs(tmp_path):
    draw(curves_figure([{"epoch": 1}]), tmp_path / "curves.png", "png")
