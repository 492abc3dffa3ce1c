"""Every neighbor is in its place, and what its frame means is said."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from care.report import neighbors_figure
from care.report.style import GOOD


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_neighbors_show_every_picture_in_its_place(generator, caplog):
    def random(*shape):
        return torch.randint(256, (*shape, 3, 8, 8), dtype=torch.uint8, generator=generator)

    queries, jittered, results = random(2), random(2) / 200 - 0.1, {"SimCLR": random(2, 3), "CARE": random(2, 2)}
    (ax,) = neighbors_figure(queries, jittered, results).axes
    images = {}
    for image in ax.images:
        left, _, _, top = image.get_extent()
        images[int(top), left] = image.get_array()
    rows = [[picture for (row, _), picture in sorted(images.items(), key=lambda i: i[0]) if row == r] for r in (0, 1)]
    for i in (0, 1):
        expected = [queries[i], jittered[i].clamp(0, 1), *results["SimCLR"][i], *results["CARE"][i]]
        assert len(rows[i]) == 7
        for shown, picture in zip(rows[i], expected, strict=True):
            np.testing.assert_array_equal(shown, picture.permute(1, 2, 0).numpy())
    assert texts(ax) == ["original", "query", "SimCLR", "CARE"]
    assert not caplog.records  # matplotlib logs colors out of range


def test_right_neighbors_are_framed_in_green(generator):
    pictures = torch.zeros(2, 3, 3, 8, 8, dtype=torch.uint8)
    right = torch.tensor([[True, False, False], [False, True, True]])
    (ax,) = neighbors_figure(pictures[:, 0], pictures[:, 0], {"m": pictures}, {"m": right}).axes
    green = [to_hex(p.get_edgecolor()) == to_hex(GOOD) for p in ax.patches if isinstance(p, Rectangle)]
    assert green == right.flatten().tolist()


@pytest.mark.parametrize(("k", "lines"), [(1, 2), (5, 1)])
def test_a_key_says_once_what_a_frame_means(k, lines):
    pictures, right = torch.zeros(1, k, 3, 8, 8, dtype=torch.uint8), torch.ones(1, k, dtype=torch.bool)
    figure = neighbors_figure(
        pictures[:, 0], pictures[:, 0], {"m": pictures, "n": pictures}, right={"m": right, "n": right}
    )
    (key,) = figure.legends
    frames = [to_hex(handle.get_edgecolor()) for handle in key.legend_handles]
    words = [text.get_text() for text in key.get_texts()]
    assert list(zip(frames, words, strict=True)) == [
        (to_hex(GOOD), "same class as the query"),
        (to_hex("0.75"), "another class"),
    ]
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in key.get_texts()]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert len({round(box.y0) for box in boxes}) == lines
    assert not neighbors_figure(pictures[:, 0], pictures[:, 0], {"m": pictures}).legends


def test_pictures_keep_their_proportions():
    wide = torch.zeros(1, 3, 8, 16, dtype=torch.uint8)
    (ax,) = neighbors_figure(wide, wide, {"m": wide[:, None]}).axes
    for image in ax.images:
        left, right, bottom, top = image.get_extent()
        assert right - left == pytest.approx(2 * (bottom - top))
    assert ax.get_aspect() == 1


def test_models_that_do_not_fit_go_below(tmp_path):
    pictures = torch.zeros(2, 5, 3, 8, 8, dtype=torch.uint8)
    figure = neighbors_figure(pictures[:, 0], pictures[:, 0], {f"m{i}": pictures for i in range(5)})
    assert [len(ax.images) for ax in figure.axes] == [2 * 12, 2 * 12, 2 * 7]
    figure.savefig(tmp_path / "figure.png")
