"""The kernel of `fused_augment`: one program makes one view. Imported only when it runs, because it needs Triton.

A view lives in three blocks of registers, one per channel, of BLOCK × BLOCK pixels: BLOCK is the size of the view
rounded up to a power of two. The pixels beyond the view repeat its last row and column and are never stored.

`no_type_check` keeps the shape checks of the tests away: Triton compiles the bare functions.
"""

from typing import no_type_check

import triton
import triton.language as tl

from care.augment import images as parameters
from care.augment.color import LUMA

BRIGHTNESS, CONTRAST, HUE = (tl.constexpr(k) for k in (parameters.BRIGHTNESS, parameters.CONTRAST, parameters.HUE))
LUMA_RED, LUMA_GREEN, LUMA_BLUE = (tl.constexpr(weight) for weight in LUMA)

# None of these is read more than an element at a time, so Triton has nothing to gain from their alignment; a kernel
# compiled anew for every combination of aligned and unaligned slices would be a long wait in the middle of training.
READ_SINGLY = (
    "images", "indices", "mean", "std", "top", "left", "height", "width", "flip", "order", "brightness", "contrast",
    "saturation", "hue", "gray", "blur", "sigma", "solarize",
)  # fmt: skip


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=READ_SINGLY)
@no_type_check
def augment_kernel(
    out: tl.tensor, images: tl.tensor, indices: tl.tensor, mean: tl.tensor, std: tl.tensor,
    top: tl.tensor, left: tl.tensor, height: tl.tensor, width: tl.tensor, flip: tl.tensor, order: tl.tensor,
    brightness: tl.tensor, contrast: tl.tensor, saturation: tl.tensor, hue: tl.tensor, gray: tl.tensor,
    blur: tl.tensor, sigma: tl.tensor, solarize: tl.tensor, threshold: tl.tensor,
    count: tl.tensor, source_height: tl.tensor, source_width: tl.tensor,
    image_stride: tl.tensor, channel_stride: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    out_channel_stride: tl.tensor, out_row_stride: tl.tensor, out_column_stride: tl.tensor,
    WHITE: tl.constexpr, SIZE: tl.constexpr, KERNEL_SIZE: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """View n of image indices[n], or of image n without indices. WHITE is the value of white in `images`: 255 or 1."""
    n = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < SIZE) & (column < SIZE)
    pixel = n * 3 * SIZE * SIZE + row * out_row_stride + column * out_column_stride
    row, column = tl.minimum(row, SIZE - 1), tl.minimum(column, SIZE - 1)

    image = n if indices is None else tl.load(indices + n).to(tl.int64)
    # An image that does not exist has no rows: its view is 0/0, not what happens to lie there in memory.
    exists = ((image >= 0) & (image < count)).to(tl.int32)
    y, y_radius, y_start, y_stop = _stretch(top + n, height + n, source_height * exists, row, SIZE)
    mirrored = tl.where(tl.load(flip + n), SIZE - 1 - column, column)
    x, x_radius, x_start, x_stop = _stretch(left + n, width + n, source_width, mirrored, SIZE)
    r, g, b = _resize(
        images + image * image_stride, channel_stride, row_stride, column_stride,
        y, y_radius, y_start, y_stop, x, x_radius, x_start, x_stop, WHITE,
    )  # fmt: skip

    for k in range(4):
        operation = tl.load(order + 4 * n + k)
        if operation == HUE:
            r, g, b = _shift_hue(r, g, b, tl.load(hue + n))
        elif operation == BRIGHTNESS:
            r, g, b = _blend(r, g, b, 0.0, tl.load(brightness + n))
        elif operation == CONTRAST:
            mean_gray = tl.sum(tl.where(inside, _luma(r, g, b), 0.0)) / (SIZE * SIZE)
            r, g, b = _blend(r, g, b, mean_gray, tl.load(contrast + n))
        else:
            r, g, b = _blend(r, g, b, _luma(r, g, b), tl.load(saturation + n))
    if tl.load(gray + n):
        r = _luma(r, g, b)
        g, b = r, r
    if tl.load(blur + n):
        deviation = tl.load(sigma + n)
        r = _blur(r, row, column, deviation, SIZE, KERNEL_SIZE)
        g = _blur(g, row, column, deviation, SIZE, KERNEL_SIZE)
        b = _blur(b, row, column, deviation, SIZE, KERNEL_SIZE)
    if tl.load(solarize + n):
        r = tl.where(r >= threshold, 1 - r, r)
        g = tl.where(g >= threshold, 1 - g, g)
        b = tl.where(b >= threshold, 1 - b, b)
    _store(out + pixel, r, inside, mean, std, 0)
    _store(out + pixel + out_channel_stride, g, inside, mean, std, 1)
    _store(out + pixel + 2 * out_channel_stride, b, inside, mean, std, 2)


# Whether TRITON_INTERPRET=1 has Triton run its kernels in Python, where they take tensors on the CPU.
INTERPRETED = not isinstance(augment_kernel, triton.JITFunction)


@triton.jit
@no_type_check
def _stretch(
    start: tl.tensor, length: tl.tensor, source: tl.tensor, i: tl.tensor, SIZE: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Center and radius of the triangle of output pixel i, as in `resize_matrix`, and the ends of the stretch."""
    start, length = tl.load(start).to(tl.int32), tl.load(length).to(tl.int32)
    ratio = tl.div_rn(length.to(tl.float32), SIZE * 1.0)  # rounded as in PyTorch: `/` is off by 2e-5 px in 96
    center = start + (i + 0.5) * ratio
    return center, tl.maximum(ratio, 1.0), tl.maximum(start, 0), tl.minimum(start + length, source)


@triton.jit
@no_type_check
def _resize(
    image: tl.tensor, channel_stride: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    y_center: tl.tensor, y_radius: tl.tensor, y_start: tl.tensor, y_stop: tl.tensor,
    x_center: tl.tensor, x_radius: tl.tensor, x_start: tl.tensor, x_stop: tl.tensor, WHITE: tl.constexpr,
) -> tuple[tl.tensor, ...]:  # fmt: skip
    """Σ_yx w_y w_x image_yx / Σ_yx w_y w_x with triangle weights: at most ⌈2 radius⌉ pixels a side are not 0."""
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
def _luma(r: tl.tensor, g: tl.tensor, b: tl.tensor) -> tl.tensor:
    return r * LUMA_RED + g * LUMA_GREEN + b * LUMA_BLUE


@triton.jit
@no_type_check
def _blend(r: tl.tensor, g: tl.tensor, b: tl.tensor, other: tl.tensor, factor: tl.tensor) -> tuple[tl.tensor, ...]:
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
def _shift_hue(r: tl.tensor, g: tl.tensor, b: tl.tensor, shift: tl.tensor) -> tuple[tl.tensor, ...]:
    """`shift_hue`, and nothing at all for a shift of 0."""
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
def _blur(
    x: tl.tensor, row: tl.tensor, column: tl.tensor, sigma: tl.tensor, SIZE: tl.constexpr, KERNEL_SIZE: tl.constexpr
) -> tl.tensor:
    """`gaussian_blur` of one channel, along the columns and then along the rows."""
    return _blur_axis(_blur_axis(x, row, 0, sigma, SIZE, KERNEL_SIZE), column, 1, sigma, SIZE, KERNEL_SIZE)


@triton.jit
@no_type_check
def _blur_axis(
    x: tl.tensor, i: tl.tensor, AXIS: tl.constexpr, sigma: tl.tensor, SIZE: tl.constexpr, KERNEL_SIZE: tl.constexpr
) -> tl.tensor:
    """Σ_t g(t) x[mirror(i + t)] / Σ_t g(t) with g(t) = exp(−t²/2σ²), mirrored at the first and the last pixel."""
    blurred, total = tl.zeros_like(x), 0.0
    for t in range(-(KERNEL_SIZE // 2), KERNEL_SIZE // 2 + 1):
        weight = tl.exp(-0.5 * (t / sigma) * (t / sigma))
        mirrored = SIZE - 1 - tl.abs(SIZE - 1 - tl.abs(i + t))
        blurred += weight * tl.gather(x, tl.broadcast_to(mirrored, x.shape), AXIS)
        total += weight
    return blurred / total


@triton.jit
@no_type_check
def _store(
    pixel: tl.tensor, x: tl.tensor, inside: tl.tensor, mean: tl.tensor, std: tl.tensor, CHANNEL: tl.constexpr
) -> None:
    if mean is not None:
        x = (x - tl.load(mean + CHANNEL)) / tl.load(std + CHANNEL)
    tl.store(pixel, x.to(pixel.dtype.element_ty), mask=inside)
