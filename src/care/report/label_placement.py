"""Place names beside points so that they hide neither points nor each other."""

import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text

from care.report.style import SMALL, dark, literal

DISTANCES = (8.0, 16.0, 28.0, 42.0, 58.0)  # points from a point to its name, tried in this order
DIRECTIONS = (30.0, -30.0, 150.0, -150.0, 90.0, -90.0, 0.0, 180.0)  # degrees
MARKER, LINE = 5.0, 1.0  # points (1/72 inch) around a marker or a line that must stay visible
APART = np.array([-4.0, 0.0, 4.0, 0.0])  # pixels between neighboring names, which would otherwise read as one
STEPS = 16  # places at which the thin line from a point to its name is checked

Point = tuple[float, float]
Boxes = Float64[np.ndarray, "_ 4"]  # left, bottom, right and top, in pixels


def names_apart(
    ax: Axes, points: Mapping[str, Point], colors: Mapping[str, str], lines: Iterable[tuple[Point, Point]] = ()
) -> None:
    """Write each name beside its point, with a thin line to it, so that they hide no point, no other name or its line,
    and none of the `lines`, given by their ends. The limits of the axes must be final."""
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # which places the axes
    markers = {name: _around(ax, point, point, MARKER) for name, point in points.items()}
    drawn, taken = [_around(ax, *ends, LINE) for ends in lines], np.empty((0, 4))  # names, and the lines to them
    for name, point in points.items():
        text = _annotate(ax, name, point, dark(colors[name]))
        crossed = np.concatenate([taken, *(marker for whose, marker in markers.items() if whose != name)])
        covered = np.concatenate([taken, *markers.values(), *drawn])
        costs = {}
        for at in itertools.product(DISTANCES, DIRECTIONS):
            box = _moved(text, at)
            costs[at] = _hidden(box, ax, covered) + _shared(_leader(ax, box, point), crossed)
        box = _moved(text, min(costs, key=costs.__getitem__))
        taken = np.concatenate([taken, box + APART, _leader(ax, box, point)])


def _annotate(ax: Axes, name: str, point: Point, color: str) -> Annotation:
    line = {"arrowstyle": "-", "color": color, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    text = ax.annotate(
        literal(name), point, (0, 0), textcoords="offset points", fontsize=SMALL, color=color, arrowprops=line
    )
    text.get_window_extent()  # from now on it is placed from its point
    return text


def _moved(text: Annotation, at: tuple[float, float]) -> Boxes:
    """Put the name at this distance and in this direction from its point, and return its box."""
    distance, direction = at[0], math.radians(at[1])
    x, y = distance * math.cos(direction), distance * math.sin(direction)
    text.set_position((x, y))
    text.set_horizontalalignment("center" if abs(x) < 1 else "left" if x > 0 else "right")
    text.set_verticalalignment("center" if abs(y) < 1 else "bottom" if y > 0 else "top")
    return np.array([Text.get_window_extent(text).extents])  # that of the annotation has the line in it


def _hidden(box: Boxes, ax: Axes, others: Boxes) -> float:
    """The area, in pixels, in which a name overlaps others or lies outside of the axes."""
    return _shared(box, box) - _shared(box, np.array([ax.get_window_extent().extents])) + _shared(box, others)


def _leader(ax: Axes, box: Boxes, point: Point) -> Boxes:
    """Small boxes along the line from a point to the middle of its name, as far as the name's edge."""
    start, middle = ax.transData.transform(point), (box[0, :2] + box[0, 2:]) / 2
    half = 3 * LINE * ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    places = start + np.linspace(2 / STEPS, 1, STEPS - 1)[:, None] * (middle - start)
    outside = places[((places < box[0, :2]) | (places > box[0, 2:])).any(1)]
    return np.concatenate([outside - half, outside + half], axis=1)


def _shared(a: Boxes, b: Boxes) -> float:
    """The total overlap of the boxes in `a` with the boxes in `b`, over all pairs."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    return float(sides.clip(0).prod(axis=2).sum())


def _around(ax: Axes, start: Point, end: Point, margin: float) -> Boxes:
    """The box around a line that is parallel to an axis."""
    (x0, y0), (x1, y1) = ax.transData.transform([start, end])
    half = margin * ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    return np.array([[x0 - half, y0 - half, x1 + half, y1 + half]])
