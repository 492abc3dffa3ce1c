"""Pictures and tables for people."""

from care.report.curves import curves_figure
from care.report.gallery import gallery, read_pictures
from care.report.orbits import orbit_figure

__all__ = ["curves_figure", "gallery", "orbit_figure", "read_pictures"]
