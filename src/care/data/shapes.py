"""`shapes`: generated pictures of colored, textured shapes on dim, textured backgrounds.

A picture is made from its class and numbers drawn independently and uniformly: five factors of the shape, which come
with the pictures, and nuisance factors (color and texture of shape and background), which do not. A shape is always
entirely in the picture.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from care.data.silhouettes import SILHOUETTES, Plane

CLASSES = tuple(SILHOUETTES)

# The factors of a shape and the range of each.
FACTORS = {"hue": (0.0, 1.0), "x": (-0.2, 0.2), "y": (-0.2, 0.2), "scale": (0.4, 0.8), "angle": (0.0, 1.0)}

# Nuisance factors of the shape and of the background. Hues are fractions of the hue circle, frequencies are in periods
# per half width of the picture, directions and phases are fractions of 360°; a pattern in [0, 1) is stripes, in [1, 2)
# checks, in [2, 3) waves.
NUISANCE_FACTORS = {
    "saturation": (0.6, 1.0),
    "value": (0.6, 1.0),
    "pattern": (0.0, 3.0),
    "contrast": (0.1, 0.3),
    "frequency": (1.0, 3.0),
    "direction": (0.0, 1.0),
    "phase": (0.0, 1.0),
    "ground hue": (0.0, 1.0),
    "ground saturation": (0.0, 0.25),
    "ground value": (0.1, 0.45),
    "ground pattern": (0.0, 3.0),
    "ground contrast": (0.1, 0.5),
    "ground frequency": (0.2, 2.0),
    "ground direction": (0.0, 1.0),
    "ground phase": (0.0, 1.0),
}

NOISE = 0.02  # standard deviation of the noise of a pixel, where 1 is white
BLOCK = 250  # pictures drawn at once


@dataclass(frozen=True)
class Shapes:
    """Pictures, the class of each (an index into `classes`), and the factors that made it.

    | factor   | meaning                                                                                  |
    |----------|------------------------------------------------------------------------------------------|
    | `hue`    | hue of the shape, as a fraction of the hue circle, from red over green                   |
    | `x`, `y` | centroid of the shape, x to the right and y down; the picture spans [−1, 1]              |
    | `scale`  | greatest distance of the edge from the centroid                                          |
    | `angle`  | counterclockwise rotation of the shape, as a fraction of 360°                            |

    The angle can be seen only modulo the rotational symmetry of the shape: 90° for square and cross, 120° for triangle,
    72° for star, 360° for crescent, heart, arrow and L, and not at all for disc and ring.
    """

    images: UInt8[Tensor, "n 3 size size"]
    labels: Int[Tensor, " n"]
    factors: dict[str, Float[Tensor, " n"]]
    classes: tuple[str, ...] = CLASSES


def generate_shapes(n: int, seed: int, size: int = 32) -> Shapes:
    """n pictures of `size` × `size` pixels, in equal shares of all classes: picture i is of class i mod 10.

    Picture i depends on the seed, on i and on the size, not on n: numbers are drawn for whole blocks of pictures, and
    those of the last block beyond n are dropped. The factors do not depend on the size either.
    """
    if n < 1:
        raise ValueError(f"at least one shape must be generated, got n = {n}")
    if size < 8:
        raise ValueError(f"shapes cannot be distinguished on fewer than 8 × 8 pixels, got size = {size}")
    generator = torch.Generator().manual_seed(seed)
    # Noise has its own generator, so that the number of pixels does not change later random numbers.
    noise = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
    values = [_draw(generator) for _ in range(-(-n // BLOCK))]
    images = torch.empty(n, 3, size, size, dtype=torch.uint8)
    with _one_thread():
        for block, drawn in zip(images.split(BLOCK), values, strict=True):
            block.copy_(_photograph(drawn, size, noise)[: len(block)])
    factors = {name: torch.cat([drawn[name] for drawn in values])[:n] for name in FACTORS}
    return Shapes(images, torch.arange(n) % len(CLASSES), factors)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for the small operations of a block: more threads save little, and on a busy machine waiting for
    them can take ten times as long as the work.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _draw(generator: torch.Generator) -> dict[str, Float[Tensor, " n"]]:
    """All factors of one block of pictures, each uniform in its range."""
    ranges = FACTORS | NUISANCE_FACTORS
    uniform = torch.rand(len(ranges), BLOCK, generator=generator)
    return {name: low + (high - low) * row for (name, (low, high)), row in zip(ranges.items(), uniform, strict=True)}


def _photograph(
    values: dict[str, Float[Tensor, " n"]], size: int, generator: torch.Generator
) -> UInt8[Tensor, "n 3 size size"]:
    """One block of pictures, with noise."""
    clean = render(torch.arange(BLOCK) % len(CLASSES), values, size)
    noisy = torch.randn(clean.shape, generator=generator).mul_(NOISE).add_(clean)
    return noisy.clamp_(0, 1).mul_(255).round_().to(torch.uint8)


def render(
    labels: Int[Tensor, " n"], values: dict[str, Float[Tensor, " n"]], size: int
) -> Float[Tensor, "n 3 size size"]:
    """The pictures, in [0, 1] and without noise, with these `values` of FACTORS and NUISANCE_FACTORS."""
    x, y = _pixel_centers(len(labels), size)
    u, v = _shape_frame(x, y, values)
    covered = _coverage(labels, u, v, values["scale"][:, None, None])
    return torch.lerp(_surface(values, "ground ", x, y), _surface(values, "", u, v), covered[:, None])


def _coverage(labels: Int[Tensor, " n"], u: Plane, v: Plane, scale: Float[Tensor, "n 1 1"]) -> Plane:
    """The fraction of each pixel that the shape covers: its edge is blurred over one pixel."""
    u, v, pixel = u / scale, v / scale, 2 / u.shape[-1]
    distance = torch.empty_like(u)
    for label, silhouette in enumerate(SILHOUETTES.values()):
        mine = labels == label
        distance[mine] = silhouette.signed_distance(u[mine], v[mine])
    return (0.5 - distance * scale / pixel).clamp(0, 1)


def _pixel_centers(n: int, size: int) -> tuple[Plane, Plane]:
    """x and y of every pixel: the edges of the picture are at −1 and 1, x grows to the right and y down."""
    centers = (2 * torch.arange(size) + 1) / size - 1
    return centers.expand(n, size, size), centers[:, None].expand(n, size, size)


def _shape_frame(x: Plane, y: Plane, values: dict[str, Float[Tensor, " n"]]) -> tuple[Plane, Plane]:
    """Coordinates that move and turn with the shape, but do not grow with it: u to its right and v up."""
    turn = 2 * math.pi * values["angle"][:, None, None]
    right, up = x - values["x"][:, None, None], values["y"][:, None, None] - y
    return turn.cos() * right + turn.sin() * up, turn.cos() * up - turn.sin() * right


def _surface(values: dict[str, Float[Tensor, " n"]], layer: str, u: Plane, v: Plane) -> Float[Tensor, "n 3 h w"]:
    """A color, darkened where the pattern is high."""
    hue, saturation, value, contrast = (values[layer + name] for name in ("hue", "saturation", "value", "contrast"))
    shade = 1 - contrast[:, None, None] * (1 + _pattern(values, layer, u, v)) / 2
    return _rgb(hue, saturation, value)[:, :, None, None] * shade[:, None]


def _pattern(values: dict[str, Float[Tensor, " n"]], layer: str, u: Plane, v: Plane) -> Plane:
    """Stripes sin a, checks sin a · sin b, or waves sin(a + 2 sin b), a and b growing at right angles; in [−1, 1]."""
    kind, frequency, direction, phase = (
        values[layer + name][:, None, None] for name in ("pattern", "frequency", "direction", "phase")
    )
    cos, sin = (2 * math.pi * direction).cos(), (2 * math.pi * direction).sin()
    a = 2 * math.pi * (frequency * (cos * u + sin * v) + phase)
    across = (2 * math.pi * (frequency * (cos * v - sin * u) + 2 * phase)).sin()
    # One sine serves all three patterns: only waves bend it, and only checks multiply it by the other sine.
    wave = (a + torch.where(kind < 2, 0.0, 2 * across)).sin()
    return torch.where((kind >= 1) & (kind < 2), wave * across, wave)


def _rgb(hue: Float[Tensor, " n"], saturation: Float[Tensor, " n"], value: Float[Tensor, " n"]) -> Float[Tensor, "n 3"]:
    """The color of HSV: V − V S clamp(min(k, 4 − k), 0, 1), where k = (5, 3, 1) + 6 H mod 6 for red, green and blue."""
    k = (torch.tensor([5, 3, 1]) + 6 * hue[:, None]) % 6
    return value[:, None] * (1 - saturation[:, None] * torch.minimum(k, 4 - k).clamp(0, 1))
