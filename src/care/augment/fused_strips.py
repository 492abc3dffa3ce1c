"""The kernels of `fused_augment` for views that one program cannot hold: a program makes a strip of rows of a view.

Two steps need more than a strip, so each starts another kernel: contrast needs the mean of the view, and blur needs the
rows above and below. Between kernels, a view is kept in memory in float32.
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
def resize_kernel(
    resized: tl.tensor, sums: tl.tensor, images: tl.tensor,
    top: tl.tensor, left: tl.tensor, height: tl.tensor, width: tl.tensor, flip: tl.tensor, order: tl.tensor,
    brightness: tl.tensor, saturation: tl.tensor, hue: tl.tensor,
    source_height: tl.tensor, source_width: tl.tensor,
    image_stride: tl.tensor, channel_stride: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    WHITE: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Crop, flip, and the colors before contrast; also Σ luma of the strip, for the mean that contrast needs."""
    n, strip = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row, column, inside, pixel = _strip(strip, n, SIZE, ROWS, BLOCK)
    y, y_radius, y_start, y_stop = stretch(top + n, height + n, source_height, row, SIZE)
    mirrored = tl.where(tl.load(flip + n), SIZE - 1 - column, column)
    x, x_radius, x_start, x_stop = stretch(left + n, width + n, source_width, mirrored, SIZE)
    r, g, b = resize(
        images + n * image_stride, channel_stride, row_stride, column_stride,
        y, y_radius, y_start, y_stop, x, x_radius, x_start, x_stop, WHITE,
    )  # fmt: skip
    r, g, b = _jitter(
        r, g, b, order + 4 * n, tl.load(brightness + n), 1.0, tl.load(saturation + n), tl.load(hue + n), 0.0, 0
    )
    tl.store(sums + n * tl.num_programs(1) + strip, tl.sum(tl.where(inside, luma(r, g, b), 0.0)))
    tl.store(resized + pixel, r, mask=inside)
    tl.store(resized + pixel + SIZE * SIZE, g, mask=inside)
    tl.store(resized + pixel + 2 * SIZE * SIZE, b, mask=inside)


@triton.jit(do_not_specialize_on_alignment=READ_SINGLY)
@no_type_check
def color_kernel(
    out: tl.tensor, resized: tl.tensor, sums: tl.tensor,
    order: tl.tensor, brightness: tl.tensor, contrast: tl.tensor, saturation: tl.tensor, hue: tl.tensor,
    gray: tl.tensor, blur: tl.tensor, solarize: tl.tensor, threshold: tl.tensor,
    out_channel_stride: tl.tensor, out_row_stride: tl.tensor, out_column_stride: tl.tensor,
    SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, STRIPS: tl.constexpr,
) -> None:  # fmt: skip
    """Contrast, the colors that come after it, and gray. Views that will not be blurred are finished here."""
    n, strip = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row, column, inside, pixel = _strip(strip, n, SIZE, ROWS, BLOCK)
    r = tl.load(resized + pixel, mask=inside)
    g = tl.load(resized + pixel + SIZE * SIZE, mask=inside)
    b = tl.load(resized + pixel + 2 * SIZE * SIZE, mask=inside)
    strips = tl.arange(0, STRIPS)
    all_strips = tl.load(sums + n * tl.num_programs(1) + strips, mask=strips < tl.num_programs(1), other=0.0)
    r, g, b = _jitter(
        r, g, b, order + 4 * n, tl.load(brightness + n), tl.load(contrast + n), tl.load(saturation + n),
        tl.load(hue + n), tl.sum(all_strips) / (SIZE * SIZE), 1,
    )  # fmt: skip
    if tl.load(gray + n):
        r = luma(r, g, b)
        g, b = r, r
    if tl.load(blur + n):
        tl.store(resized + pixel, r, mask=inside)
        tl.store(resized + pixel + SIZE * SIZE, g, mask=inside)
        tl.store(resized + pixel + 2 * SIZE * SIZE, b, mask=inside)
    else:
        inverted = tl.load(solarize + n)
        view = out + n * 3 * SIZE * SIZE + row * out_row_stride + column * out_column_stride
        tl.store(view, solarized(r, inverted, threshold), mask=inside)
        tl.store(view + out_channel_stride, solarized(g, inverted, threshold), mask=inside)
        tl.store(view + 2 * out_channel_stride, solarized(b, inverted, threshold), mask=inside)


@triton.jit(do_not_specialize_on_alignment=READ_SINGLY)
@no_type_check
def blur_columns_kernel(
    blurred: tl.tensor, colored: tl.tensor, blur: tl.tensor, sigma: tl.tensor,
    SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_SIZE: tl.constexpr,
) -> None:  # fmt: skip
    """`gaussian_blur` of one channel along its columns."""
    n, strip, channel = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    if tl.load(blur + n):
        row, column, inside, pixel = _strip(strip, n, SIZE, ROWS, BLOCK)
        first = (n * 3 + channel) * SIZE * SIZE
        x = _blur_strip(colored + first + column, row, SIZE, inside, tl.load(sigma + n), SIZE, KERNEL_SIZE)
        tl.store(blurred + pixel + channel * SIZE * SIZE, x, mask=inside)


@triton.jit(do_not_specialize_on_alignment=READ_SINGLY)
@no_type_check
def blur_rows_kernel(
    out: tl.tensor, blurred: tl.tensor, blur: tl.tensor, sigma: tl.tensor,
    solarize: tl.tensor, threshold: tl.tensor,
    out_channel_stride: tl.tensor, out_row_stride: tl.tensor, out_column_stride: tl.tensor,
    SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, KERNEL_SIZE: tl.constexpr,
) -> None:  # fmt: skip
    """`gaussian_blur` of one channel along its rows, and the remaining steps for blurred views."""
    n, strip, channel = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    if tl.load(blur + n):
        row, column, inside, _ = _strip(strip, n, SIZE, ROWS, BLOCK)
        first = (n * 3 + channel) * SIZE * SIZE
        x = _blur_strip(blurred + first + row * SIZE, column, 1, inside, tl.load(sigma + n), SIZE, KERNEL_SIZE)
        view = out + n * 3 * SIZE * SIZE + row * out_row_stride + column * out_column_stride
        x = solarized(x, tl.load(solarize + n), threshold)
        tl.store(view + channel * out_channel_stride, x, mask=inside)


@triton.jit
@no_type_check
def _strip(
    strip: tl.tensor, n: tl.tensor, SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Rows and columns of a strip, the mask of its pixels inside the view, and their offsets in [n, 3, SIZE, SIZE]."""
    row, column = strip * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < SIZE) & (column < SIZE)
    row, column = tl.minimum(row, SIZE - 1), tl.minimum(column, SIZE - 1)
    return row, column, inside, n * 3 * SIZE * SIZE + row * SIZE + column


@triton.jit
@no_type_check
def _jitter(
    r: tl.tensor, g: tl.tensor, b: tl.tensor, order: tl.tensor, brightness: tl.tensor, contrast: tl.tensor,
    saturation: tl.tensor, hue: tl.tensor, mean_gray: tl.tensor, AFTER: tl.constexpr,
) -> tuple[tl.tensor, ...]:  # fmt: skip
    """The steps of the color jitter before contrast or, with AFTER = 1, contrast and those after it."""
    reached = 0
    for k in range(4):
        operation = tl.load(order + k)
        if operation == CONTRAST:
            reached = 1
            if AFTER == 1:
                r, g, b = blend(r, g, b, mean_gray, contrast)
        elif reached == AFTER:
            if operation == HUE:
                r, g, b = shift_hue(r, g, b, hue)
            elif operation == BRIGHTNESS:
                r, g, b = blend(r, g, b, 0.0, brightness)
            else:
                r, g, b = blend(r, g, b, luma(r, g, b), saturation)
    return r, g, b


@triton.jit
@no_type_check
def _blur_strip(
    line: tl.tensor, i: tl.tensor, stride: tl.tensor, inside: tl.tensor, sigma: tl.tensor,
    SIZE: tl.constexpr, KERNEL_SIZE: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Σ_t g(t) x[mirror(i + t)] / Σ_t g(t) with g(t) = exp(−t²/2σ²), mirrored at the first and the last pixel."""
    blurred, total = tl.zeros(inside.shape, tl.float32), 0.0
    for t in range(-(KERNEL_SIZE // 2), KERNEL_SIZE // 2 + 1):
        weight = tl.exp(-0.5 * (t / sigma) * (t / sigma))
        mirrored = SIZE - 1 - tl.abs(SIZE - 1 - tl.abs(i + t))
        blurred += weight * tl.load(line + mirrored * stride, mask=inside, other=0.0)
        total += weight
    return blurred / total
