"""Figures are drawn, but not laid out, and of few dots: in half of the time."""

from contextlib import contextmanager

import pytest

from care.report import drawing


@contextmanager
def coarse_drawing():
    def coarse(canvas):
        return lambda figure: (figure.set_layout_engine("none"), figure.set_dpi(40), canvas(figure))[-1]

    with pytest.MonkeyPatch.context() as patch:
        for name in ("FigureCanvasAgg", "FigureCanvasSVG"):
            patch.setattr(drawing, name, coarse(getattr(drawing, name)))
        yield
