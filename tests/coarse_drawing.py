"""Figures are drawn, but not laid out, of few dots, and in one format: in a quarter of the time."""

from contextlib import contextmanager
from weakref import WeakSet

import pytest

from care.report import drawing


@contextmanager
def coarse_drawing():
    """In the first format that is asked for, a figure is what it is; in others it is empty."""
    drawn = WeakSet()

    def coarse(canvas):
        def prepared(figure):
            figure.set_layout_engine("none")
            figure.set_dpi(40)
            figure.set_visible(figure not in drawn)
            drawn.add(figure)
            return canvas(figure)

        return prepared

    with pytest.MonkeyPatch.context() as patch:
        for name in ("FigureCanvasAgg", "FigureCanvasSVG"):
            patch.setattr(drawing, name, coarse(getattr(drawing, name)))
        yield
