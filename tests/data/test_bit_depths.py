"""Pictures of more than 8 bits, and of numbers whose white is to be found out: each as 8 bits, or refused."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from care.data.readers.decoding import decode
from care.data.readers.pictures import Pictures
from data.reading import save


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_gray_of_more_than_8_bits_fills_the_range_that_it_was_taken_with(tmp_path, bits, name):
    ramp = np.linspace(0, (1 << bits) - 1, 32).round()[None, :].repeat(32, 0)
    save(tmp_path / name, Image.fromarray(ramp.astype(np.uint16)))
    assert np.abs(decode(tmp_path / name, 32) - np.linspace(0, 255, 32)).max() <= 1


def test_16_bits_of_other_kinds(tmp_path):
    """Big-endian, as 32-bit numbers, and in a PGM, whose header says what is white."""
    ramp = np.linspace(0, 4095, 32).round()[None, :].repeat(32, 0)
    save(tmp_path / "b.tif", Image.frombytes("I;16B", (32, 32), ramp.astype(">u2").tobytes()))
    save(tmp_path / "i.tif", Image.fromarray(ramp.astype(np.int32)))
    (tmp_path / "c.pgm").write_bytes(b"P5 32 32 4095\n" + ramp.astype(">u2").tobytes())
    for name in ("b.tif", "i.tif", "c.pgm"):
        assert np.abs(decode(tmp_path / name, 32) - np.linspace(0, 255, 32)).max() <= 1


@pytest.mark.parametrize("white", [1.0, 255.0])
def test_fractions(tmp_path, white):
    ramp = np.linspace(0, white, 32, dtype=np.float32)[None, :].repeat(32, 0)
    save(tmp_path / "a.tif", Image.fromarray(ramp))
    assert np.abs(decode(tmp_path / "a.tif", 32) - np.linspace(0, 255, 32)).max() <= 1


@pytest.mark.parametrize("mode", ["I", "F"])
@pytest.mark.parametrize("value", [70_000, -1])
def test_numbers_of_which_white_is_unknown_are_refused(tmp_path, mode, value):
    save(tmp_path / "1.tif", Image.new(mode, (9, 9), value))
    (bad,) = Pictures([(tmp_path / "1.tif", 0)], 8)
    assert f"its numbers go from {value}" in bad.reason


def png_of_16_bit_colors(path, pixels):
    """By hand: Pillow does not write them."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.mark.parametrize(("bits", "steps"), [(16, 1), (14, 4), (12, 16), (10, 64)])
def test_16_bit_colors_that_hold_fewer_are_not_black(tmp_path, bits, steps):
    """Pillow keeps their upper 8 bits: of 12 bits, steps of 16 levels are left."""
    ramp = np.linspace(0, (1 << bits) - 1, 32).round()[None, :, None].repeat(32, 0).repeat(3, 2)
    png_of_16_bit_colors(tmp_path / "a.png", ramp)
    assert np.abs(decode(tmp_path / "a.png", 32) - np.linspace(0, 255, 32)).max() <= steps


def test_16_bit_colors_of_which_pillow_keeps_nothing_are_refused(tmp_path):
    png_of_16_bit_colors(tmp_path / "a.png", np.full((8, 8, 3), 255))
    (bad,) = Pictures([(tmp_path / "a.png", 0)], 8)
    assert "its 16-bit colors are all below 256: save it with 8 bits" in bad.reason
