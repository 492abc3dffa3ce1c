"""What is drawn is what matplotlib's own `savefig` writes."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from care.report import spectrum_figure
from care.report.drawing import draw


def pixels(write):
    file = io.BytesIO()
    write(file)
    return np.asarray(Image.open(file).convert("RGB"))


@pytest.mark.parametrize("make", [lambda: spectrum_figure({"m": [3.0, 2.0, 1.0]}), lambda: Figure(figsize=(2, 1))])
def test_the_png_is_that_of_savefig(make):
    theirs = pixels(lambda file: make().savefig(file, format="png", dpi=120))
    assert np.array_equal(pixels(lambda file: draw(make(), file, "png")), theirs)


def test_the_svg_is_laid_out_as_the_png_was(tmp_path):
    figure = spectrum_figure({"m": [3.0, 2.0, 1.0]})
    draw(figure, tmp_path / "a.png", "png")
    place = figure.axes[0].get_position().bounds
    draw(figure, tmp_path / "a.svg", "svg")
    assert figure.axes[0].get_position().bounds == place
    assert (tmp_path / "a.svg").read_text().count("<path") > 10
