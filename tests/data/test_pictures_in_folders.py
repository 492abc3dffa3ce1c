"""Pictures of every kind, and files that are none, in a folder per class."""

import io
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from care.data.readers import Example, Unreadable, folder_splits, read_folder
from care.data.readers.pictures import decode
from data.reading import collected


@pytest.fixture
def random():
    return np.random.default_rng(0)


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def test_a_folder_per_class(tmp_path):
    for path, level in {"train/b/1.png": 1, "train/a/2.png": 2, "train/a/1/x.png": 3, "val/b/1.png": 4}.items():
        save(tmp_path / path, Image.new("RGB", (9, 8), (level, 0, 0)))
    (tmp_path / "train" / "a" / ".hidden").write_text("no picture")
    (tmp_path / "train" / "readme.txt").write_text("not in the folder of a class")
    assert folder_splits(tmp_path) == ("train", "val")
    source = read_folder(tmp_path, "train", 4)
    assert (source.classes, source.expected) == (("a", "b"), 3)
    images, labels = collected(source)
    assert sorted(zip(images[:, 0, 0, 0].tolist(), labels, strict=True)) == [(1, 1), (2, 0), (3, 0)]
    assert collected(read_folder(tmp_path, "val", 4))[1] == [1]
    assert folder_splits(tmp_path / "train") == ("train",)  # flat: FOLDER/CLASS
    assert sorted(collected(read_folder(tmp_path / "train", "train", 4))[1]) == [0, 0, 1]


@pytest.mark.parametrize("where", ["", "train/"])
def test_pictures_without_classes(tmp_path, where):
    for i in range(3):
        save(tmp_path / f"{where}{i}.png", Image.new("RGB", (9, 8), (i, 0, 0)))
    (tmp_path / where / ".hidden").mkdir()
    (tmp_path / where / ".DS_Store").write_text("no picture")
    source = read_folder(tmp_path, "train", 4)
    assert (source.classes, source.expected) == ((), 3)
    images, labels = collected(source)
    assert (sorted(images[:, 0, 0, 0].tolist()), labels) == ([0, 1, 2], [-1] * 3)


def test_a_split_without_classes_beside_one_with_them(tmp_path):
    for name in ("train/1.png", "val/2.png", "test/a/3.png"):
        save(tmp_path / name, Image.new("RGB", (9, 8)))
    assert collected(read_folder(tmp_path, "val", 4))[1] == [-1]
    with pytest.raises(ValueError, match="test/a: the training pictures have no such class"):
        read_folder(tmp_path, "test", 4)
    save(tmp_path / "train/a/1.png", Image.new("RGB", (9, 8)))
    with pytest.raises(ValueError, match=r"val has no folders of classes: .* FOLDER/val/CLASS/"):
        read_folder(tmp_path, "val", 4)


def test_folders_that_are_something_else(tmp_path):
    with pytest.raises(ValueError, match="has no folders of classes and no pictures: "):
        read_folder(tmp_path, "train", 4)
    save(tmp_path / "train/a/1.png", Image.new("RGB", (9, 8)))
    with pytest.raises(ValueError, match="has no split 'val', only train"):
        read_folder(tmp_path, "val", 4)
    (tmp_path / "val" / "b").mkdir(parents=True)
    with pytest.raises(ValueError, match="val/b: the training pictures have no such class"):
        read_folder(tmp_path, "val", 4)
    with pytest.raises(ValueError, match="--size must be from 1 to 4096, got 5000"):
        list(read_folder(tmp_path, "train", 5000).examples)
    with pytest.raises(ValueError, match="is not a folder"):
        folder_splits(tmp_path / "missing")


@pytest.mark.parametrize(("width", "height"), [(64, 64), (100, 64), (64, 101), (300, 200), (20, 10)])
def test_pictures_are_resized_with_antialiasing_and_cut_to_the_center(tmp_path, random, width, height):
    """As when the whole picture is resized and its center is cut out, to the rounding of where the center is."""
    coarse = Image.fromarray(random.integers(256, size=(6, 7, 3), dtype=np.uint8))
    picture = coarse.resize((width, height), Image.Resampling.BICUBIC)
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


RED = (200, 10, 10)


def odd_pictures():
    red = Image.new("RGB", (12, 10), RED)
    frames = {"save_all": True, "append_images": [Image.new("RGB", (12, 10), (0, 0, 255))]}
    palette = red.quantize(4)
    palette.info["transparency"] = bytes([0, 255])
    return {
        "cmyk.jpg": (red.convert("CMYK"), {"quality": 100}),
        "palette.png": (palette, {}),
        "alpha.png": (Image.new("RGBA", (12, 10), (*RED, 0)), {}),
        "animated.gif": (red, frames),
        "animated.webp": (red, {**frames, "lossless": True}),
        "tiny.png": (Image.new("RGB", (1, 1), RED), {}),
        "line.png": (Image.new("RGB", (1, 5000), RED), {}),
        "a.bmp": (red, {}),
        "a.tif": (red, {}),
        "mislabeled.gif": (red, {"format": "PNG"}),
    }


@pytest.mark.parametrize("name", odd_pictures())
def test_odd_pictures_are_converted(tmp_path, name):
    image, options = odd_pictures()[name]
    save(tmp_path / "a" / name, image, **options)
    (example,) = read_folder(tmp_path, "train", 8).examples
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


def broken_files():
    jpg, png, pcx, large = (io.BytesIO() for _ in range(4))
    noise = Image.fromarray(np.random.default_rng(0).integers(256, size=(40, 40, 3), dtype=np.uint8))
    noise.save(jpg, "JPEG")
    noise.save(png, "PNG")
    noise.save(pcx, "PCX")  # Pillow could read it
    Image.new("1", (9500, 9500)).save(large, "PNG")  # Pillow would only warn

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def claim(width, height):
        size = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + size + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")

    flipped = bytearray(png.getvalue())
    flipped[60] ^= 255
    return {
        "empty.jpg": b"",
        "text.jpg": b"hello",
        "truncated.jpg": jpg.getvalue()[:-400],
        "header.jpg": jpg.getvalue()[:20],
        "truncated.png": png.getvalue()[: len(png.getvalue()) // 2],
        "flipped.png": bytes(flipped),
        "bomb.png": claim(60_000, 60_000),
        "large.png": large.getvalue(),
        "rare.pcx": pcx.getvalue(),
    }


BROKEN_FILES = broken_files()


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_files_are_told_by_name(tmp_path, name):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_bytes(BROKEN_FILES[name])
    save(tmp_path / "a" / "z.png", Image.new("RGB", (9, 9), RED))
    filters = list(warnings.filters)
    bad, good = sorted(read_folder(tmp_path, "train", 8).examples, key=lambda found: isinstance(found, Example))
    assert isinstance(bad, Unreadable)
    assert isinstance(good, Example)
    assert bad.file == str(tmp_path / "a" / name)
    assert bad.reason.startswith("cannot be read as a picture")
    assert "\n" not in bad.reason
    assert warnings.filters == filters


def test_links_to_nothing_are_told_by_name(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").symlink_to(tmp_path / "missing.png")
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert bad.reason == "cannot be read as a picture (OSError: it is missing or not a plain file)"


def test_pictures_go_with_their_labels_and_the_first_of_them_are_of_all_classes(tmp_path):
    for i in range(600):
        save(tmp_path / f"{'abc'[i // 200]}/{i:03d}.png", Image.new("RGB", (1, 1), (i % 200, 0, i // 200)))
    images, labels = collected(read_folder(tmp_path, "train", 1))
    assert images[:, 2, 0, 0].tolist() == labels
    assert sorted((label, i) for label, i in zip(labels, images[:, 0, 0, 0].tolist(), strict=True)) == [
        (label, i) for label in range(3) for i in range(200)
    ]
    assert all(20 <= labels[:100].count(label) <= 47 for label in range(3))  # 33, give or take three deviations
    assert collected(read_folder(tmp_path, "train", 1))[1] == labels


def test_a_picture_is_not_turned_as_its_camera_was(tmp_path):
    """As the documentation says: what EXIF asks for is left to whoever took the picture."""
    picture, exif = Image.new("RGB", (8, 8)), Image.Exif()
    picture.paste((255, 255, 255), (0, 0, 8, 4))
    exif[0x0112] = 6
    save(tmp_path / "a.jpg", picture, exif=exif, quality=100)
    found = decode(tmp_path / "a.jpg", 8)
    assert found[:, :4].min() > 200
    assert found[:, 4:].max() < 50


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_of_which_white_is_unknown_are_refused(tmp_path, mode):
    save(tmp_path / "a" / "1.tif", Image.new(mode, (9, 9), 70_000))
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert f"what is white is unknown for pixels of mode {mode}" in bad.reason


def test_a_text_that_unpacks_to_too_much_is_told_by_name(tmp_path):
    """A bomb beside the pixels: a comment of 100 MB that compresses well."""
    comment = PngImagePlugin.PngInfo()
    comment.add_text("note", "x" * 100_000_000, zip=True)
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9)), pnginfo=comment)
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert isinstance(bad, Unreadable)
    assert bad.file.endswith("1.png")


def loop_of_links(path):
    path.symlink_to(path.name)


def pipe(path):
    os.mkfifo(path)


def folder_of_that_name(path):
    path.mkdir()
    save(path / "inside.png", Image.new("RGB", (9, 9), RED))


@pytest.mark.parametrize("make", [loop_of_links, pipe])
def test_what_is_no_plain_file_is_told_by_name_and_not_waited_for(tmp_path, make):
    (tmp_path / "a").mkdir()
    make(tmp_path / "a" / "1.jpg")
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert (bad.file, "not a plain file" in bad.reason) == (str(tmp_path / "a" / "1.jpg"), True)


def test_a_folder_called_like_a_picture_is_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    folder_of_that_name(tmp_path / "a" / "x.jpg")
    images, _ = collected(read_folder(tmp_path, "train", 8))
    assert images.shape == (1, 3, 8, 8)


def test_a_link_to_the_folder_above_is_not_followed_for_ever(tmp_path):
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9), RED))
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert read_folder(tmp_path, "train", 8).expected == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told_by_name(tmp_path):
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9), RED))
    (tmp_path / "a" / "1.png").chmod(0)
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert "PermissionError" in bad.reason
