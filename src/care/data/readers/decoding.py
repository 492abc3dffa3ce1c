"""Decode a picture of any size and format, in a file or in memory, to a square."""

import importlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image, UnidentifiedImageError

# Increase this number whenever decoding gives other bytes: caches then decode again.
VERSION = 1
# Other formats are rare, and some of their decoders start other programs. HEIF is read if pillow-heif is installed.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
MOST_PIXELS = 500_000_000  # as decoded: 2 GB
MANY_PIXELS = 50_000_000  # pictures with more are decoded one at a time
LARGE: AbstractContextManager[Any] = Lock()  # per process; worker processes share the lock of their pool

ORIENTATION = 0x0112  # the EXIF tag
# The transposition that sets a picture of each orientation upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = (5, 6, 7, 8)  # width and height change places
ISO_PICTURE = re.compile(rb"....ftyp(?:(?P<AVIF>avi[fs])|(?P<HEIC>he[ivm][cxms]|hevc|mif1|msf1))", re.DOTALL)


def decode(file: Path | BytesIO, side: int) -> UInt8[np.ndarray, "3 {side} {side}"]:
    """The center square of the picture, resized with antialiasing: the shorter side becomes `side` pixels.

    The EXIF orientation is applied. All color spaces are converted to RGB, transparent pixels are blended with white,
    and of an animation the first frame is used. A large JPEG is decoded at 1/2, 1/4 or 1/8 of its size, with at least
    2 `side` pixels along each side.
    """
    square, _ = _decoded(file, side, center_square)
    return square


def decode_whole(file: Path | BytesIO, side: int) -> tuple[UInt8[np.ndarray, "3 {side} {side}"], float]:
    """The whole picture, squeezed into a square, and its aspect W/H; otherwise as `decode`."""
    return _decoded(file, side, lambda width, height: (0, 0, width, height))


Box = tuple[float, float, float, float]  # left, top, right, bottom


def center_square(width: float, height: float) -> Box:
    """The largest square in the middle of a picture."""
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    return left, top, left + edge, top + edge


def _decoded(
    file: Path | BytesIO, side: int, box: Callable[[float, float], Box]
) -> tuple[UInt8[np.ndarray, "3 {side} {side}"], float]:
    """The square from `box(width, height)` of the picture, and the aspect of the whole picture, both upright."""
    if isinstance(file, Path) and not file.is_file():
        raise OSError("it is missing or not a plain file")
    with Image.open(file, formats=formats()) as picture:
        whole = picture.size
        drafted = picture.draft(None, (2 * side, 2 * side))
        width, height = drafted[1][2:] if drafted else picture.size
        with LARGE if _pixels(picture, whole) > MANY_PIXELS else nullcontext():
            shallow = _in_8_bits(picture)
            square = shallow.resize((side, side), Image.Resampling.BILINEAR, box(float(width), float(height)))
        orientation = _orientation(picture)
        square = _upright(_over_white(square), orientation)
    aspect = whole[0] / whole[1]
    pixels = np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))
    return pixels, 1 / aspect if orientation in SIDEWAYS else aspect


def as_rgb(picture: Image.Image) -> Image.Image:
    """A whole picture, converted as by `decode`: upright, in RGB of 8 bits, over white."""
    return _upright(_over_white(_in_8_bits(picture)), _orientation(picture))


@cache
def formats() -> tuple[str, ...]:
    """The formats that the installed packages can read."""
    with suppress(ImportError):
        importlib.import_module("pillow_heif").register_heif_opener()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def reason_of(error: Exception, file: Path | BytesIO) -> str:
    """One line that says why a picture could not be decoded and, if its format is the reason, what to do."""
    if isinstance(error, UnidentifiedImageError) and (found := ISO_PICTURE.match(_start(file))):
        if found["HEIC"]:
            return "is a HEIC picture: install the package pillow-heif, or convert it to JPEG"
        return "is an AVIF picture: install Pillow 11.3 or later, or convert it to JPEG"
    line = " ".join(str(error).replace(repr(file if isinstance(file, BytesIO) else str(file)), "").split())
    return f"cannot be read as a picture ({type(error).__name__}: {line})"


def _start(file: Path | BytesIO) -> bytes:
    if isinstance(file, BytesIO):
        return file.getvalue()[:16]
    with file.open("rb") as opened:
        return opened.read(16)


def _pixels(picture: Image.Image, whole: tuple[int, int]) -> int:
    """The number of pixels that must be in memory; ValueError if they are too many.

    A progressive JPEG needs all its pixels in memory, whatever the scale at which it is decoded.
    """
    width, height = whole if picture.info.get("progressive") else picture.size
    if width * height > MOST_PIXELS:
        most, found = MOST_PIXELS // 1_000_000, width * height // 1_000_000
        raise ValueError(f"it has {found:,} megapixels, and at most {most} are decoded: make it smaller")
    return width * height


def _in_8_bits(picture: Image.Image) -> Image.Image:
    """The picture in mode L, RGB or RGBA."""
    deep = any(";16" in str(tile) for tile in picture.tile) if hasattr(picture, "tile") else False
    picture.load()
    if picture.mode.startswith("I") or picture.mode == "F":
        return _gray(np.asarray(picture))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
    elif picture.mode != "L":
        picture = picture.convert("RGB")
    return _brightened(picture) if deep else picture


def _gray(numbers: Shaped[np.ndarray, "h w"]) -> Image.Image:
    """8-bit gray from integers of up to 16 bits, scaled by the bits used, or from floats up to 1 or up to 255."""
    low, high = numbers.min(), numbers.max()
    floating = numbers.dtype.kind == "f"
    if not 0 <= low <= high <= (255 if floating else 65_535):
        raise ValueError(f"its numbers go from {low} to {high}, so the value of white is unknown")
    if floating:
        return Image.fromarray((numbers * (255 if high <= 1 else 1) + 0.5).astype(np.uint8))
    return Image.fromarray((numbers >> (_bits(int(high)) - 8)).astype(np.uint8))


def _brightened(picture: Image.Image) -> Image.Image:
    """16-bit colors, of which Pillow keeps the upper 8 bits, brightened if the file uses fewer than 16 bits."""
    bands = picture.split()
    colors, alpha = bands[: -1 if picture.mode == "RGBA" else None], bands[3:]
    highest = max(int(color.getextrema()[1]) for color in colors)  # type: ignore[arg-type]
    if highest == 0:
        raise ValueError("its 16-bit colors are all below 256: save it with 8 bits")
    factor = 1 << (16 - _bits(256 * highest + 255))
    return Image.merge(picture.mode, [*(color.point(lambda value: value * factor) for color in colors), *alpha])


def _bits(highest: int) -> int:
    """The bit depth of a camera whose numbers go up to `highest`."""
    return next(bits for bits in (8, 10, 12, 14, 16) if highest < 1 << bits)


def _over_white(square: Image.Image) -> Image.Image:
    if square.mode == "RGBA":
        square = Image.alpha_composite(Image.new("RGBA", square.size, "white"), square)
    return square.convert("RGB")


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation. Pillow sets a TIFF upright itself, and then reports 1."""
    with suppress(Exception):  # EXIF that cannot be read does not make a picture unreadable
        return int(picture.getexif().get(ORIENTATION, 1))
    return 1


def _upright(square: Image.Image, orientation: int) -> Image.Image:
    """The square with the EXIF orientation applied."""
    return square.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else square
