"""Read arrays of real numbers from MATLAB 5 files; nothing else in such files is supported.

A file is a header of 128 bytes and elements: a tag (type and length, 4 bytes each), then data, padded to 8 bytes. A
tag whose upper half of the type is not zero is a short one: that half is the length, and the data are the other 4
bytes. A matrix is an element made of elements (flags, dimensions, name, numbers), most often compressed with zlib.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LARGEST_FILE, LARGEST_MATRIX = 1 << 26, 1 << 28  # bytes; label files are far smaller

MATRIX, COMPRESSED, INT8, INT32, UINT32 = 14, 15, 1, 5, 6
# The dtype in which numbers are stored, by the type of an element, and their own dtype, by the class of a matrix.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MEANT = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
COMPLEX = 0x0800


def read_mat5(path: Path) -> dict[str, np.ndarray]:
    """All arrays of the file by name. Files with anything but arrays of real numbers are an error."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE} bytes")
        data = path.read_bytes()
        if len(data) < 128 or data[124:128] != b"\x00\x01IM":
            raise ValueError("it is not a MATLAB 5 file of little-endian numbers")
        return dict(_matrix(kind, element) for kind, element in _elements(data[128:]))
    except (ValueError, struct.error, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, data) of the elements that follow each other."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        start, padded = at + 8, -(-length // 8) * 8
        if kind >> 16:
            kind, length, start, padded = kind & 0xFFFF, kind >> 16, at + 4, 4
        elif kind == COMPRESSED:
            padded = length
        if length > padded or start + length > len(data):
            raise ValueError("it is truncated")
        yield kind, data[start : start + length]
        at = start + padded


def _matrix(kind: int, data: bytes) -> tuple[str, np.ndarray]:
    if kind == COMPRESSED:
        unpack = zlib.decompressobj()
        inflated = unpack.decompress(data, LARGEST_MATRIX)
        if not unpack.eof:
            raise ValueError(f"a matrix is truncated or has more than {LARGEST_MATRIX} bytes")
        ((kind, data),) = _elements(inflated)
    if kind != MATRIX:
        raise ValueError(f"it holds an element of type {kind}, which is not a matrix")
    (flags_kind, flags), (sizes_kind, sizes), (name_kind, name), (stored, numbers) = _elements(data)
    if (flags_kind, len(flags), sizes_kind, name_kind) != (UINT32, 8, INT32, INT8):
        raise ValueError("a matrix has an unexpected structure")
    return name.decode("ascii"), _numbers(struct.unpack_from("<I", flags)[0], sizes, stored, numbers)


def _numbers(flags: int, sizes: bytes, stored: int, data: bytes) -> np.ndarray:
    shape = np.frombuffer(sizes, "<i4").tolist()
    if flags & COMPLEX or flags & 0xFF not in MEANT or stored not in STORED:
        raise ValueError("it holds something other than arrays of real numbers")
    values = np.frombuffer(data, "<" + STORED[stored])
    if len(shape) < 2 or min(shape) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"a matrix of {shape} has {len(values)} numbers")
    return values.astype(MEANT[flags & 0xFF]).reshape(shape, order="F")
