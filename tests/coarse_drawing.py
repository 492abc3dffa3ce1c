"""Figures are drawn, but not laid out, of few dots, in one format, and once under each name: in a tenth of the time."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from care.report import drawing


@contextmanager
def coarse_drawing(only=None):
    """In the first format that is asked for, a figure is what it is; in others it is empty.

    So is one that has the name of a file that was drawn before: the curves of a second training. With `only`, files of
    these names are drawn, in every format, and all others are empty; but their figures must hold something.
    """
    drawn = set()

    def prepare(figure, file):
        name = file.stem if isinstance(file, Path) else figure
        assert figure.axes, "an empty figure"
        figure.set_layout_engine("none")
        figure.set_dpi(40)
        figure.set_visible(name not in drawn if only is None else name in only)
        drawn.add(name)

    class CoarsePNG(drawing.FigureCanvasAgg):
        def print_png(self, file, *, metadata=None):
            prepare(self.figure, file)
            super().print_png(file, metadata=metadata)

    class CoarseSVG(drawing.FigureCanvasSVG):
        def print_svg(self, file, *, metadata=None):
            prepare(self.figure, file)
            super().print_svg(file, metadata=metadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "FigureCanvasAgg", CoarsePNG)
        patch.setattr(drawing, "FigureCanvasSVG", CoarseSVG)
        yield
