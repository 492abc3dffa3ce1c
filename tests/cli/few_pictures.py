"""Files of figures, of which only some are drawn: for commands whose figures are looked at in other tests."""

from contextlib import contextmanager

import pytest

from care.report import drawing


@contextmanager
def only_drawn(*names):
    """Figures under these names are drawn, coarsely; any other must hold something, and its file is that of an empty
    one."""

    def prepare(figure, file):
        assert figure.axes, "an empty figure"
        figure.set_layout_engine("none")
        figure.set_dpi(40)
        figure.set_visible(getattr(file, "name", None) in names)

    class FewPNG(drawing.FigureCanvasAgg):
        def print_png(self, file, *, metadata=None):
            prepare(self.figure, file)
            super().print_png(file, metadata=metadata)

    class FewSVG(drawing.FigureCanvasSVG):
        def print_svg(self, file, *, metadata=None):
            prepare(self.figure, file)
            super().print_svg(file, metadata=metadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "FigureCanvasAgg", FewPNG)
        patch.setattr(drawing, "FigureCanvasSVG", FewSVG)
        yield
