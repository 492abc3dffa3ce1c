"""One picture of any kind as a square, against what Pillow makes of the whole picture."""

import sys
import types
import warnings

import numpy as np
import pytest
from PIL import Image, ImageOps

from care.data.readers import Unreadable, decoding
from care.data.readers.decoding import decode
from care.data.readers.pictures import Pictures, lenient_pillow
from data.reading import save

RED = (200, 10, 10)


@pytest.fixture
def random():
    return np.random.default_rng(0)


def smooth(random, width, height):
    """A picture without details smaller than a few pixels of what it becomes."""
    coarse = Image.fromarray(random.integers(256, size=(6, 7, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def photo(random, width, height):
    """As smooth, with grain and edges like a photo's."""
    grain = random.normal(0, 12, (height, width, 1))
    stripes = 40 * (np.arange(width) // 23 % 2)[None, :, None]
    return Image.fromarray((np.asarray(smooth(random, width, height)) + grain + stripes).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(("width", "height"), [(64, 64), (100, 64), (64, 101), (300, 200), (20, 10)])
def test_pictures_are_resized_with_antialiasing_and_cut_to_the_center(tmp_path, random, width, height):
    """As when the whole picture is resized and its center is cut out, to the rounding of where the center is."""
    picture = smooth(random, width, height)
    save(tmp_path / "a.png", picture)
    scale = 32 / min(width, height)
    whole = picture.resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - 32) // 2, (whole.height - 32) // 2
    expected = np.asarray(whole.crop((left, top, left + 32, top + 32)), float).transpose(2, 0, 1)
    found = decode(tmp_path / "a.png", 32)
    assert np.abs(found - expected).mean() < 4


def test_small_details_do_not_alias(tmp_path):
    """Stripes one pixel wide become even gray."""
    stripes = np.zeros((256, 256, 3), np.uint8)
    stripes[:, ::2] = 255
    save(tmp_path / "a.png", Image.fromarray(stripes))
    inside = decode(tmp_path / "a.png", 32)[:, 2:-2, 2:-2]
    assert 125 <= inside.min() <= inside.max() <= 130


def test_a_picture_of_the_right_size_is_left_alone(tmp_path, random):
    pixels = random.integers(256, size=(16, 16, 3), dtype=np.uint8)
    save(tmp_path / "a.png", Image.fromarray(pixels))
    assert np.array_equal(decode(tmp_path / "a.png", 16), pixels.transpose(2, 0, 1))


def odd_pictures():
    red = Image.new("RGB", (12, 10), RED)
    frames = {"save_all": True, "append_images": [Image.new("RGB", (12, 10), (0, 0, 255))]}
    return {
        "cmyk.jpg": (red.convert("CMYK"), {"quality": 100}),
        "palette.png": (red.quantize(4), {}),
        "alpha.png": (Image.new("RGBA", (12, 10), (*RED, 255)), {}),
        "animated.gif": (red, frames),
        "animated.webp": (red, {**frames, "lossless": True}),
        "tiny.png": (Image.new("RGB", (1, 1), RED), {}),
        "line.png": (Image.new("RGB", (1, 5000), RED), {}),
        "a.bmp": (red, {}),
        "a.tif": (red, {}),
        "a.avif": (red, {"quality": 100}),
        "mislabeled.gif": (red, {"format": "PNG"}),
    }


@pytest.mark.parametrize("name", odd_pictures())
def test_odd_pictures_are_converted(tmp_path, name):
    image, options = odd_pictures()[name]
    save(tmp_path / name, image, **options)
    (example,) = Pictures([(tmp_path / name, 0)], 8)
    assert np.abs(example.image.astype(int) - np.array(RED)[:, None, None]).max() <= 4


def test_gray_pictures(tmp_path):
    save(tmp_path / "1.png", Image.new("L", (9, 9), 77))
    save(tmp_path / "16.png", Image.fromarray(np.full((9, 9), 77 * 257, np.uint16)))
    save(tmp_path / "bits.png", Image.new("1", (9, 9), 1))
    assert [np.unique(decode(tmp_path / f"{name}.png", 4)).tolist() for name in ("1", "16", "bits")] == [
        [77],
        [77],
        [255],
    ]


def square_by_pillow(picture, side):
    """The whole picture decoded, set upright, resized and cut, by Pillow alone."""
    return np.asarray(ImageOps.fit(ImageOps.exif_transpose(picture), (side, side), Image.Resampling.BILINEAR), float)


@pytest.mark.parametrize("size", [(1203, 905), (700, 1411), (515, 2000)])
def test_a_large_jpeg_is_decoded_at_a_smaller_scale_and_looks_the_same(tmp_path, random, size, monkeypatch):
    """Within a level of what decoding all of it gives, on average; every pixel within a few."""
    save(tmp_path / "a.jpg", photo(random, *size), quality=92)
    decoded = []
    load = Image.Image.load
    monkeypatch.setattr(Image.Image, "load", lambda self: decoded.append(self.size) or load(self))
    found = decode(tmp_path / "a.jpg", 64).transpose(1, 2, 0)
    assert 128 <= min(decoded[0]) <= min(size) // 2
    difference = np.abs(found - square_by_pillow(Image.open(tmp_path / "a.jpg"), 64))
    assert difference.mean() < 1
    assert difference.max() < 12


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("name", "options"), [("a.jpg", {"quality": 95}), ("a.png", {}), ("a.tif", {})])
def test_pictures_are_set_upright(tmp_path, random, orientation, name, options):
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(tmp_path / name, smooth(random, 403, 301), exif=exif, **options)
    found = decode(tmp_path / name, 32).transpose(1, 2, 0)
    assert np.abs(found - square_by_pillow(Image.open(tmp_path / name), 32)).mean() < 1


def test_broken_exif_does_not_make_a_picture_unreadable(tmp_path):
    save(tmp_path / "a.jpg", Image.new("RGB", (8, 8), RED), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff", quality=100)
    (found,) = Pictures([(tmp_path / "a.jpg", 0)], 8)
    assert np.abs(found.image.astype(int) - np.array(RED)[:, None, None]).max() <= 4


def transparent_pictures():
    """Half red, half transparent: black under an alpha of 0, or one color of a palette or of all."""
    both = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    both.paste((*RED, 255), (0, 0, 10, 10))
    gray = Image.new("LA", (20, 10), (0, 0))
    gray.paste((77, 255), (0, 0, 10, 10))
    colors = Image.new("RGB", (20, 10), (0, 0, 0))
    colors.paste(RED, (0, 0, 10, 10))
    return {
        "RGBA.png": (both, {}, RED),
        "RGBA.webp": (both, {"lossless": True}, RED),
        "LA.png": (gray, {}, (77,) * 3),
        "P.png": (colors.quantize(2), {"transparency": colors.quantize(2).getpixel((15, 5))}, RED),
        "P.gif": (colors.quantize(2), {"transparency": colors.quantize(2).getpixel((15, 5))}, RED),
        "RGB.png": (colors, {"transparency": (0, 0, 0)}, RED),
        "L.png": (Image.fromarray(np.asarray(gray)[..., 0].copy()), {"transparency": 0}, (77,) * 3),
    }


@pytest.mark.parametrize("name", transparent_pictures())
def test_what_is_transparent_becomes_white(tmp_path, name):
    image, options, color = transparent_pictures()[name]
    save(tmp_path / name, image, **options)
    with warnings.catch_warnings(action="ignore"):
        found = decode(tmp_path / name, 10)
    assert np.abs(found[:, :, 1:4].astype(int) - np.array(color)[:, None, None]).max() <= 1
    assert found[:, :, 6:].min() == 255


def test_pillows_own_limit_does_not_count_and_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Image, "MAX_IMAGE_PIXELS", 99
    )  # 89 million by default: Pillow warns above, and refuses twice as many
    for side in (12, 20):
        Image.new("1", (side, side), 1).save(tmp_path / f"{side}.png")
    for found in Pictures([(tmp_path / f"{side}.png", 0) for side in (12, 20)], 8):
        assert found.image.min() == 255
    assert Image.MAX_IMAGE_PIXELS == 99


def test_the_largest_pictures(tmp_path, monkeypatch):
    """What counts is what is decoded: a quarter of the sides of a JPEG, but all of a progressive one."""
    monkeypatch.setattr(decoding, "MOST_PIXELS", 99_999)
    for name, options in (("a.jpg", {}), ("p.jpg", {"progressive": True}), ("a.png", {})):
        Image.new("RGB", (1000, 1000), RED).save(tmp_path / name, **options)
    plain, progressive, png = Pictures([(tmp_path / name, 0) for name in ("a.jpg", "p.jpg", "a.png")], 64)
    assert plain.image.shape == (3, 64, 64)
    for bad in (progressive, png):
        assert "it has 1 megapixels, and at most 0 are decoded: make it smaller" in bad.reason


@pytest.mark.parametrize(("brand", "advice"), [(b"heic", "pillow-heif"), (b"mif1", "pillow-heif")])
def test_pictures_of_phones_are_named_as_such(tmp_path, brand, advice):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftyp" + brand + bytes(100))
    (bad,) = Pictures([(tmp_path / "a.heic", 0)], 8)
    assert isinstance(bad, Unreadable)
    assert bad.reason == f"is a HEIC picture: install the package {advice}, or convert it to JPEG"


def test_avif_without_its_decoder_is_named_as_such(tmp_path, monkeypatch):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.avif")
    monkeypatch.setattr(decoding, "formats", lambda: ("JPEG",))
    (bad,) = Pictures([(tmp_path / "a.avif", 0)], 8)
    assert bad.reason == "is an AVIF picture: install Pillow 11.3 or later, or convert it to JPEG"


def test_heif_is_read_if_its_package_is_installed(monkeypatch):
    """The package registers a format of this name with Pillow."""
    plugin = types.ModuleType("pillow_heif")
    plugin.register_heif_opener = lambda: Image.register_open("HEIF", Image.OPEN["PNG"][0])
    monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
    monkeypatch.setattr(Image, "OPEN", dict(Image.OPEN))
    monkeypatch.setattr(Image, "ID", list(Image.ID))
    assert "HEIF" in decoding.formats.__wrapped__()
    monkeypatch.delitem(Image.OPEN, "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert "HEIF" not in decoding.formats.__wrapped__()


def test_any_picture_can_be_read_by_itself(tmp_path):
    for i in range(6):
        save(tmp_path / f"{i}.png", Image.new("L", (300 if i % 3 == 0 else 2,) * 2, i))
    pictures = Pictures([(tmp_path / f"{i}.png", 9 - i) for i in range(6)], 2)
    assert len(pictures) == 6
    assert [(pictures[i].image[0, 0, 0], pictures[i].label) for i in (4, 0, 4)] == [(4, 5), (0, 9), (4, 5)]
    assert [example.label for example in pictures] == [9, 8, 7, 6, 5, 4]


def test_pillow_is_lenient_until_the_last_thread_has_left():
    limit, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    with lenient_pillow():
        with lenient_pillow():
            assert Image.MAX_IMAGE_PIXELS is None
        assert Image.MAX_IMAGE_PIXELS is None
        assert list(warnings.filters) != filters
    assert limit == Image.MAX_IMAGE_PIXELS
    assert list(warnings.filters) == filters


def test_the_fingerprint_is_of_the_files_and_the_settings(tmp_path):
    for name in ("a.png", "b.png"):
        save(tmp_path / name, Image.new("L", (4, 4)))
    files = [(tmp_path / "a.png", 0), (tmp_path / "b.png", 1)]
    before = Pictures(files, 4).fingerprint()
    assert Pictures(files, 4).fingerprint() == before
    changed = [Pictures(files, 5), Pictures(files[::-1], 4), Pictures([files[0], (files[1][0], 0)], 4)]
    assert before not in {pictures.fingerprint() for pictures in changed}
    save(tmp_path / "b.png", Image.new("L", (5, 5)))
    assert Pictures(files, 4).fingerprint() != before
