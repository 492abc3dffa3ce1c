"""Pictures and tables for people."""

from care.report.gallery import gallery, read_pictures
from care.report.orbits import orbit_figure

__all__ = ["gallery", "orbit_figure", "read_pictures"]
