"""The steps of an augmentation on a block of pixels, for the kernels of `fused_augment`.

`no_type_check` keeps the shape checks of the tests away: Triton compiles the bare functions.
"""

from typing import no_type_check

import triton
import triton.language as tl

from care.augment import images as parameters
from care.augment.color import LUMA

BRIGHTNESS, CONTRAST, HUE = (tl.constexpr(k) for k in (parameters.BRIGHTNESS, parameters.CONTRAST, parameters.HUE))
LUMA_RED, LUMA_GREEN, LUMA_BLUE = (tl.constexpr(weight) for weight in LUMA)

# These are read one element at a time, so Triton gains nothing from their alignment; recompiling a kernel for every
# combination of aligned and unaligned slices would interrupt training for long.
READ_SINGLY = (
    "images", "top", "left", "height", "width", "flip", "order", "brightness", "contrast",
    "saturation", "hue", "gray", "blur", "sigma", "solarize",
)  # fmt: skip


@triton.jit
@no_type_check
def stretch(
    start: tl.tensor, length: tl.tensor, source: tl.tensor, i: tl.tensor, SIZE: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Center and radius of the triangle of output pixel i, as in `resize_matrix`, and the ends of the stretch."""
    start, length = tl.load(start).to(tl.int32), tl.load(length).to(tl.int32)
    ratio = tl.div_rn(length.to(tl.float32), SIZE * 1.0)  # rounded as in PyTorch: `/` is off by 2e-5 px in 96
    center = start + (i + 0.5) * ratio
    return center, tl.maximum(ratio, 1.0), tl.maximum(start, 0), tl.minimum(start + length, source)


@triton.jit
@no_type_check
def resize(
    image: tl.tensor, channel_stride: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    y_center: tl.tensor, y_radius: tl.tensor, y_start: tl.tensor, y_stop: tl.tensor,
    x_center: tl.tensor, x_radius: tl.tensor, x_start: tl.tensor, x_stop: tl.tensor, WHITE: tl.constexpr,
) -> tuple[tl.tensor, ...]:  # fmt: skip
    """Σ_yx w_y w_x image_yx / Σ_yx w_y w_x with triangle weights: at most ⌈2 radius⌉ weights per side are not 0."""
    total = tl.zeros((y_center.shape[0], x_center.shape[1]), tl.float32)
    r, g, b = total, total, total
    first_y = tl.floor(y_center - y_radius - 0.5).to(tl.int32) + 1
    first_x = tl.floor(x_center - x_radius - 0.5).to(tl.int32) + 1
    for dy in range(tl.ceil(2 * y_radius).to(tl.int32)):
        y = first_y + dy
        y_weight = _triangle(y, y_center, y_radius, y_start, y_stop)
        for dx in range(tl.ceil(2 * x_radius).to(tl.int32)):
            x = first_x + dx
            weight = y_weight * _triangle(x, x_center, x_radius, x_start, x_stop)
            pixel = image + y * row_stride + x * column_stride
            r += weight * tl.load(pixel, mask=weight > 0, other=0).to(tl.float32)
            g += weight * tl.load(pixel + channel_stride, mask=weight > 0, other=0).to(tl.float32)
            b += weight * tl.load(pixel + 2 * channel_stride, mask=weight > 0, other=0).to(tl.float32)
            total += weight
    total *= WHITE
    return r / total, g / total, b / total


@triton.jit
@no_type_check
def _triangle(j: tl.tensor, center: tl.tensor, radius: tl.tensor, start: tl.tensor, stop: tl.tensor) -> tl.tensor:
    """1 − |j + ½ − center| / radius, or 0 where that is negative or j outside [start, stop)."""
    weight = tl.maximum(1 - tl.abs(j + 0.5 - center) / radius, 0.0)
    return tl.where((j >= start) & (j < stop), weight, 0.0)


@triton.jit
@no_type_check
def luma(r: tl.tensor, g: tl.tensor, b: tl.tensor) -> tl.tensor:
    """The gray value of a pixel."""
    return r * LUMA_RED + g * LUMA_GREEN + b * LUMA_BLUE


@triton.jit
@no_type_check
def blend(r: tl.tensor, g: tl.tensor, b: tl.tensor, other: tl.tensor, factor: tl.tensor) -> tuple[tl.tensor, ...]:
    """clamp(φ x + (1 − φ) y), as in `jitter`."""
    other = (1 - factor) * other
    return _unit(factor * r + other), _unit(factor * g + other), _unit(factor * b + other)


@triton.jit
@no_type_check
def _unit(x: tl.tensor) -> tl.tensor:
    """x clamped to [0, 1]. As in PyTorch, and unlike Triton's default, NaN stays NaN."""
    x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, 1.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def shift_hue(r: tl.tensor, g: tl.tensor, b: tl.tensor, shift: tl.tensor) -> tuple[tl.tensor, ...]:
    """`care.augment.color.shift_hue`, skipped for a shift of 0."""
    if shift != 0:
        value = tl.maximum(tl.maximum(r, g), b)
        chroma = value - tl.minimum(tl.minimum(r, g), b)
        safe = tl.where(chroma == 0, 1.0, chroma)
        hue = tl.where(value == r, (g - b) / safe, tl.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
        hue += 6 * shift
        r = _channel(5 + hue, value, chroma)
        g = _channel(3 + hue, value, chroma)
        b = _channel(1 + hue, value, chroma)
    return r, g, b


@triton.jit
@no_type_check
def _channel(k: tl.tensor, value: tl.tensor, chroma: tl.tensor) -> tl.tensor:
    """V − C · clamp(min(k, 4 − k), 0, 1), k in sextants modulo 6."""
    k -= 6 * tl.floor(k / 6)
    return value - chroma * _unit(tl.minimum(k, 4 - k))


@triton.jit
@no_type_check
def solarized(x: tl.tensor, inverted: tl.tensor, threshold: tl.tensor) -> tl.tensor:
    """1 − x where `inverted`, and x not below the threshold."""
    return tl.where(inverted & (x >= threshold), 1 - x, x)
