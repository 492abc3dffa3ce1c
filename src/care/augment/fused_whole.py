"""The kernel of `fused_augment`: one program makes one view. Imported only when it runs, because it needs Triton.

A view lives in three blocks of registers, one per channel, of BLOCK × BLOCK pixels: BLOCK is the size of the view
rounded up to a power of two. The pixels beyond the view repeat its last row and column and are never stored.
"""

from typing import no_type_check

import triton
import triton.language as tl

from care.augment.fused_steps import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    READ_SINGLY,
    blend,
    luma,
    resize,
    shift_hue,
    solarized,
    stretch,
)


@triton.jit(do_not_specialize_on_alignment=READ_SINGLY)
@no_type_check
def augment_kernel(
    out: tl.tensor, images: tl.tensor,
    top: tl.tensor, left: tl.tensor, height: tl.tensor, width: tl.tensor, flip: tl.tensor, order: tl.tensor,
    brightness: tl.tensor, contrast: tl.tensor, saturation: tl.tensor, hue: tl.tensor, gray: tl.tensor,
    blur: tl.tensor, sigma: tl.tensor, solarize: tl.tensor, threshold: tl.tensor,
    source_height: tl.tensor, source_width: tl.tensor,
    image_stride: tl.tensor, channel_stride: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    out_channel_stride: tl.tensor, out_row_stride: tl.tensor, out_column_stride: tl.tensor,
    WHITE: tl.constexpr, SIZE: tl.constexpr, KERNEL_SIZE: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """View n, of image n. WHITE is the value of white in `images`: 255 or 1."""
    n = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < SIZE) & (column < SIZE)
    pixel = n * 3 * SIZE * SIZE + row * out_row_stride + column * out_column_stride
    row, column = tl.minimum(row, SIZE - 1), tl.minimum(column, SIZE - 1)

    y, y_radius, y_start, y_stop = stretch(top + n, height + n, source_height, row, SIZE)
    mirrored = tl.where(tl.load(flip + n), SIZE - 1 - column, column)
    x, x_radius, x_start, x_stop = stretch(left + n, width + n, source_width, mirrored, SIZE)
    r, g, b = resize(
        images + n * image_stride, channel_stride, row_stride, column_stride,
        y, y_radius, y_start, y_stop, x, x_radius, x_start, x_stop, WHITE,
    )  # fmt: skip

    for k in range(4):
        operation = tl.load(order + 4 * n + k)
        if operation == HUE:
            r, g, b = shift_hue(r, g, b, tl.load(hue + n))
        elif operation == BRIGHTNESS:
            r, g, b = blend(r, g, b, 0.0, tl.load(brightness + n))
        elif operation == CONTRAST:
            mean_gray = tl.sum(tl.where(inside, luma(r, g, b), 0.0)) / (SIZE * SIZE)
            r, g, b = blend(r, g, b, mean_gray, tl.load(contrast + n))
        else:
            r, g, b = blend(r, g, b, luma(r, g, b), tl.load(saturation + n))
    if tl.load(gray + n):
        r = luma(r, g, b)
        g, b = r, r
    if tl.load(blur + n):
        deviation = tl.load(sigma + n)
        r = _blur(r, row, column, deviation, SIZE, KERNEL_SIZE)
        g = _blur(g, row, column, deviation, SIZE, KERNEL_SIZE)
        b = _blur(b, row, column, deviation, SIZE, KERNEL_SIZE)
    inverted = tl.load(solarize + n)
    tl.store(out + pixel, solarized(r, inverted, threshold), mask=inside)
    tl.store(out + pixel + out_channel_stride, solarized(g, inverted, threshold), mask=inside)
    tl.store(out + pixel + 2 * out_channel_stride, solarized(b, inverted, threshold), mask=inside)


# Whether TRITON_INTERPRET=1 makes Triton run its kernels in Python, on CPU tensors.
INTERPRETED = not isinstance(augment_kernel, triton.JITFunction)


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
