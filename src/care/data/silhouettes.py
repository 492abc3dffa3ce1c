"""The outlines of the ten shapes of `shapes`, as signed distances.

An outline takes coordinates (u, v), u to the right and v up, and returns a number that is negative inside the shape,
zero on its edge, and the distance to the edge close to it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Plane = Float[Tensor, "n h w"]
NOTCH = 0.42  # the radius of the star's notches


def disc(u: Plane, v: Plane) -> Plane:
    """The unit disc."""
    return torch.hypot(u, v) - 1


def ring(u: Plane, v: Plane) -> Plane:
    """The unit disc with a hole of half its radius."""
    return (torch.hypot(u, v) - 0.75).abs() - 0.25


def square(u: Plane, v: Plane) -> Plane:
    """A square with sides of length 2, upright."""
    return _bar(u, v, 1.0, 1.0)


def triangle(u: Plane, v: Plane) -> Plane:
    """An equilateral triangle in the unit circle, one corner up."""
    return torch.maximum(-v, math.sqrt(0.75) * u.abs() + 0.5 * v) - 0.5


def star(u: Plane, v: Plane) -> Plane:
    """A star with five points in the unit circle, one of them up, and five notches."""
    fifth = 2 * math.pi / 5
    radius, away = torch.hypot(u, v), torch.atan2(u, v)
    # Folded onto the axis of the nearest point, the ten edges are one: from (0, 1) down to a notch.
    away = (away - fifth * (away / fifth).round()).abs()
    drop, width = 1 - NOTCH * math.cos(fifth / 2), NOTCH * math.sin(fifth / 2)
    return (drop * radius * away.sin() + width * (radius * away.cos() - 1)) / math.hypot(drop, width)


def cross(u: Plane, v: Plane) -> Plane:
    """Two bars across each other."""
    return torch.minimum(_bar(u, v, 1.0, 0.3), _bar(u, v, 0.3, 1.0))


def crescent(u: Plane, v: Plane) -> Plane:
    """The unit disc, bitten off on the right by a smaller one."""
    return torch.maximum(torch.hypot(u, v) - 1, 0.8 - torch.hypot(u - 0.5, v))


def heart(u: Plane, v: Plane) -> Plane:
    """A unit square standing on its corner at the origin, with half a disc on each upper side."""
    right, left = (v + u.abs()) * math.sqrt(0.5), (v - u.abs()) * math.sqrt(0.5)
    return torch.minimum(_bar(right - 0.5, left - 0.5, 0.5, 0.5), torch.hypot(right - 1, left - 0.5) - 0.5)


def arrow(u: Plane, v: Plane) -> Plane:
    """A triangular head from (0, 1) down to v = 0.1, on a shaft down to v = −1."""
    # The shaft reaches into the head: two edges along one line would let the background through between them.
    edge = (0.9 * u.abs() + 0.8 * (v - 1)) / math.hypot(0.9, 0.8)
    return torch.minimum(torch.maximum(edge, 0.1 - v), _bar(u, v + 0.3, 0.25, 0.7))


def letter_l(u: Plane, v: Plane) -> Plane:
    """A long bar, and a short one to the right at its foot."""
    return torch.minimum(_bar(u + 0.4, v, 0.25, 1.0), _bar(u, v + 0.75, 0.65, 0.25))


def _bar(u: Plane, v: Plane, half_width: float, half_height: float) -> Plane:
    return torch.maximum(u.abs() - half_width, v.abs() - half_height)


@dataclass(frozen=True)
class Silhouette:
    """An outline, its centroid (u, v), its greatest distance from there, and its symmetry.

    Rotated by 360° / `symmetry` the shape is the same; 0 stands for every angle.
    """

    outline: Callable[[Plane, Plane], Plane]
    symmetry: int
    centroid: tuple[float, float] = (0.0, 0.0)
    radius: float = 1.0

    def signed_distance(self, u: Plane, v: Plane) -> Plane:
        """The outline moved and scaled so that its centroid is the origin and it just fits into the unit circle."""
        return self.outline(self.radius * u + self.centroid[0], self.radius * v + self.centroid[1]) / self.radius


SILHOUETTES: dict[str, Silhouette] = {
    "disc": Silhouette(disc, symmetry=0),
    "ring": Silhouette(ring, symmetry=0),
    "square": Silhouette(square, symmetry=4, radius=math.sqrt(2)),
    "triangle": Silhouette(triangle, symmetry=3),
    "star": Silhouette(star, symmetry=5),
    "cross": Silhouette(cross, symmetry=4, radius=math.hypot(1, 0.3)),
    "crescent": Silhouette(crescent, symmetry=1, centroid=(-0.386, 0.0), radius=1.273),
    "heart": Silhouette(heart, symmetry=1, centroid=(0.0, 0.929), radius=0.929),
    "arrow": Silhouette(arrow, symmetry=1, centroid=(0.0, 0.032), radius=1.061),
    "L": Silhouette(letter_l, symmetry=1, centroid=(-0.214, -0.214), radius=1.29),
}
