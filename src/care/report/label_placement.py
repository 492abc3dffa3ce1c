"""Names beside points, where they hide neither a point nor each other."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from care.report.style import SMALL, dark, literal

DISTANCES = (8, 16, 28, 42, 58)  # points from a point to its name, tried in this order
DIRECTIONS = (30, -30, 150, -150, 90, -90, 0, 180)  # degrees
MARKER, LINE = 5, 1  # points around a point or a line that are not to be hidden
STEPS = 16  # along the thin line from a point to its name, where it is looked at

Point = tuple[float, float]


def names_apart(
    ax: Axes, points: Mapping[str, Point], colors: Mapping[str, str], lines: Iterable[tuple[Point, Point]] = ()
) -> None:
    """Write each name beside its point, with a thin line to it, where neither hides a point, none of the `lines`, given
    by their ends, another name or its line. The limits of the axes must be final."""
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # which places the axes
    markers = {name: _around(ax, point, point, MARKER) for name, point in points.items()}
    drawn, taken = [_around(ax, *ends, LINE) for ends in lines], list[Bbox]()  # names, and the lines to them
    for name, point in points.items():
        text = _annotate(ax, name, point, dark(colors[name]))
        crossed = [*taken, *(marker for whose, marker in markers.items() if whose != name)]
        covered = [*taken, *markers.values(), *drawn]
        costs = {
            at: _hidden(text, at, ax, covered) + _crossed(_leader(ax, _moved(text, at), point), crossed)
            for at in itertools.product(DISTANCES, DIRECTIONS)
        }
        box = _moved(text, min(costs, key=costs.__getitem__))
        taken += [box, *_leader(ax, box, point)]


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


def _crossed(leader: Sequence[Bbox], others: Sequence[Bbox]) -> float:
    """The area, in pixels, that the line to a name shares with others."""
    return sum(_shared(step, other) for step in leader for other in others)


def _leader(ax: Axes, box: Bbox, point: Point) -> list[Bbox]:
    """Small boxes along the line from a point to the middle of its name, as far as the name's edge."""
    (x0, y0), x1, y1 = ax.transData.transform(point), (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    half = 3 * LINE * ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    places = [(x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in (i / STEPS for i in range(2, STEPS + 1))]
    outside = ((x, y) for x, y in places if not box.contains(x, y))
    return [Bbox([[x - half, y - half], [x + half, y + half]]) for x, y in outside]


def _shared(a: Bbox, b: Bbox) -> float:
    both = Bbox.intersection(a, b)
    return 0.0 if both is None else both.width * both.height


def _around(ax: Axes, start: Point, end: Point, margin: float) -> Bbox:
    """What a line along an axis takes, in pixels."""
    (x0, y0), (x1, y1) = ax.transData.transform([start, end])
    half = margin * ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    return Bbox([[x0 - half, y0 - half], [x1 + half, y1 + half]])
