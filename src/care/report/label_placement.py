"""Names beside points, where they hide neither a point nor each other."""

import itertools
import math
from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from care.report.style import SMALL, dark, literal

DISTANCES = (8, 16, 28, 42)  # points from a point to its name, tried in this order
DIRECTIONS = (30, -30, 150, -150, 90, -90, 0, 180)  # degrees
MARKER, LINE = 5, 1  # points around a point or a line that are not to be hidden

Point = tuple[float, float]


def names_apart(
    ax: Axes, points: Mapping[str, Point], colors: Mapping[str, str], lines: Iterable[tuple[Point, Point]] = ()
) -> None:
    """Write each name beside its point, with a thin line to it, where it hides no point, none of the `lines`, given by
    their ends, and no other name. The limits of the axes must be final."""
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # which places the axes
    taken = [_around(ax, point, point, MARKER) for point in points.values()]
    taken += [_around(ax, *ends, LINE) for ends in lines]
    for name, point in points.items():
        text = _annotate(ax, name, point, dark(colors[name]))
        costs = {at: _hidden(text, at, ax, taken) for at in itertools.product(DISTANCES, DIRECTIONS)}
        taken.append(_moved(text, min(costs, key=costs.__getitem__)))


def _annotate(ax: Axes, name: str, point: Point, color: str) -> Annotation:
    line = {"arrowstyle": "-", "color": color, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    text = ax.annotate(
        literal(name), point, (0, 0), textcoords="offset points", fontsize=SMALL, color=color, arrowprops=line
    )
    text.get_window_extent()  # from now on it is placed from its point
    return text


def _moved(text: Annotation, at: tuple[float, float]) -> Bbox:
    """Put the name at this distance and direction of its point; where it is then."""
    distance, direction = at[0], math.radians(at[1])
    x, y = distance * math.cos(direction), distance * math.sin(direction)
    text.set_position((x, y))
    text.set_horizontalalignment("center" if abs(x) < 1 else "left" if x > 0 else "right")
    text.set_verticalalignment("center" if abs(y) < 1 else "bottom" if y > 0 else "top")
    return Text.get_window_extent(text)  # that of the annotation has the line in it


def _hidden(text: Annotation, at: tuple[float, float], ax: Axes, others: Iterable[Bbox]) -> float:
    """The area, in pixels, that the name would share with others, or have outside of the axes."""
    box = _moved(text, at)
    inside = _shared(box, ax.get_window_extent())
    return box.width * box.height - inside + sum(_shared(box, other) for other in others)


def _shared(a: Bbox, b: Bbox) -> float:
    both = Bbox.intersection(a, b)
    return 0.0 if both is None else both.width * both.height


def _around(ax: Axes, start: Point, end: Point, margin: float) -> Bbox:
    """What a line along an axis takes, in pixels."""
    (x0, y0), (x1, y1) = ax.transData.transform([start, end])
    half = margin * ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    return Bbox([[x0 - half, y0 - half], [x1 + half, y1 + half]])
