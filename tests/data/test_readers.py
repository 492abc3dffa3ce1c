"""Readers, against files written by hand, by PIL, by pickle and by scipy."""

import io
import pickle
import struct
import tarfile
import warnings
import zlib

import numpy as np
import pytest
import scipy.io
from PIL import Image

from care.data.readers import (
    Example,
    Unreadable,
    folder_splits,
    read_cifar10,
    read_cifar100,
    read_flowers,
    read_folder,
    read_stl10,
)
from care.data.readers.classes import CIFAR10_CLASSES, CIFAR100_CLASSES, FLOWER_CLASSES, STL10_CLASSES
from care.data.readers.mat5 import read_mat5
from care.data.readers.pictures import decode


@pytest.fixture
def random():
    return np.random.default_rng(0)


def collected(source):
    examples = list(source.examples)
    assert all(example.image.shape == (3, source.height, source.width) for example in examples)
    return np.stack([example.image for example in examples]), [example.label for example in examples]


def packed(folder, archive):
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def message_of(call):
    """What the ValueError says that the call ends with; the names of all files if it goes well."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return "test_batch a.mat"


# CIFAR


def cifar10_files(folder, random, write):
    """Five training files and one test file of three images each, and what must be read from them."""
    pixels, labels = random.integers(256, size=(6, 3, 3, 32, 32), dtype=np.uint8), random.integers(10, size=(6, 3))
    folder.mkdir()
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        write(folder / name, pixels[i], labels[i].tolist())
    return pixels, labels


def write_binary(path, pixels, labels):
    rows = b"".join(bytes([label]) + image.tobytes() for image, label in zip(pixels, labels, strict=True))
    path.with_suffix(".bin").write_bytes(rows)


def write_pickle(protocol):
    def write(path, pixels, labels):
        content = {"data": pixels.reshape(len(pixels), -1), "labels": labels, "filenames": ["a.png"] * len(labels)}
        path.write_bytes(pickle.dumps(content, protocol))

    return write


def write_python2_pickle(path, pixels, labels):
    """As the official files are: byte strings, and numpy's names of the time, opcode by opcode."""
    text = lambda data: b"T" + struct.pack("<I", len(data)) + data  # noqa: E731
    data = pixels.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt" + text(b"b") + b"tR"
    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + b"I0\nI1\ntR(I3\n" + text(b"|") + b"NNNI-1\nI-1\nI0\ntb"
    state = b"(I1\n(I%d\nI3072\nt" % len(pixels) + dtype + b"I00\n" + text(data) + b"tb"
    numbers = b"(" + b"".join(b"I%d\n" % label for label in labels) + b"l"
    path.write_bytes(b"\x80\x02}(" + text(b"data") + array + state + text(b"labels") + numbers + b"u.")


PICKLES = {f"pickle{protocol}": write_pickle(protocol) for protocol in (3, 4, 5)} | {"python2": write_python2_pickle}


@pytest.mark.parametrize("how", ["folder", "parent", "archive"])
@pytest.mark.parametrize("layout", ["binary", *PICKLES])
def test_cifar10_in_every_layout(tmp_path, random, layout, how):
    folder = tmp_path / ("cifar-10-batches-bin" if layout == "binary" else "cifar-10-batches-py")
    pixels, labels = cifar10_files(folder, random, write_binary if layout == "binary" else PICKLES[layout])
    path = {"folder": folder, "parent": tmp_path, "archive": packed(folder, tmp_path / "cifar.tar.gz")}[how]
    for split, part in {"train": slice(0, 5), "test": slice(5, 6)}.items():
        found, found_labels = collected(read_cifar10(path, split))
        assert np.array_equal(found, pixels[part].reshape(-1, 3, 32, 32))
        assert found_labels == labels[part].ravel().tolist()
    assert read_cifar10(path, "train").classes[3] == "cat"


@pytest.mark.parametrize("layout", ["binary", "python"])
def test_cifar100_reads_the_fine_label(tmp_path, random, layout):
    pixels = random.integers(256, size=(2, 3, 32, 32), dtype=np.uint8)
    folder = tmp_path / f"cifar-100-{layout}"
    folder.mkdir()
    if layout == "binary":
        (folder / "train.bin").write_bytes(
            b"".join(bytes([7, 90 + i]) + image.tobytes() for i, image in enumerate(pixels))
        )
    else:
        content = {b"data": pixels.reshape(2, -1), b"fine_labels": [90, 91], b"coarse_labels": [7, 7]}
        (folder / "train").write_bytes(pickle.dumps(content, 4))
    found, labels = collected(read_cifar100(tmp_path, "train"))
    assert np.array_equal(found, pixels)
    assert labels == [90, 91]
    assert (CIFAR100_CLASSES[90], len(CIFAR100_CLASSES)) == ("train", 100)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_in_columns_are_read_too(tmp_path, random, order):
    pixels = np.array(random.integers(256, size=(3, 3072), dtype=np.uint8), order=order)
    for protocol in (4, 5):
        (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": pixels, "labels": [1, 2, 3]}, protocol))
        assert np.array_equal(collected(read_cifar10(tmp_path, "test"))[0].reshape(3, -1), pixels)


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path, call):
        self.path, self.call = str(path), call

    def __reduce__(self):
        if self.call == "open":
            return (open, (self.path, "w"))
        return (np.save, (self.path, np.zeros(1)))


@pytest.mark.parametrize("call", ["open", "numpy"])
def test_a_malicious_pickle_does_not_run(tmp_path, call):
    harm = tmp_path / "harm.npy"
    data = pickle.dumps({"data": Touch(harm, call), "labels": [1]})
    (tmp_path / "test_batch").write_bytes(data)
    pickle.loads(data)["data"].close() if call == "open" else pickle.loads(data)
    assert harm.exists()  # it would
    harm.unlink()
    with pytest.raises(
        ValueError, match=r"test_batch is not a pickle of plain arrays: it names \S+, which no data set"
    ):
        list(read_cifar10(tmp_path, "test").examples)
    assert not harm.exists()


def test_a_pickle_cannot_change_what_its_names_stand_for(tmp_path, random):
    """Setting the state of numpy's function itself is the classic way around a list of allowed names."""
    attack = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}X\x04\x00\x00\x00nameX\x01\x00\x00\x00xsb."
    (tmp_path / "test_batch").write_bytes(attack)
    with pytest.raises(ValueError, match="it holds no dictionary"):
        list(read_cifar10(tmp_path, "test").examples)
    write_python2_pickle(tmp_path / "test_batch", random.integers(256, size=(1, 3, 32, 32), dtype=np.uint8), [4])
    assert collected(read_cifar10(tmp_path, "test"))[1] == [4]


@pytest.mark.parametrize(
    "content",
    [
        {"labels": [1]},
        {"data": [1, 2], "labels": [1]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [1]},
        {"data": np.zeros((1, 3071), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3072), object), "labels": [1]},
        {"data": np.zeros((2, 3072), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["1"]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [10]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [-1]},
        {"data": np.zeros((0, 3072), np.uint8), "labels": []},
        [1, 2],
    ],
)
def test_pickles_of_other_things_are_refused(tmp_path, content):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, 4))
    with pytest.raises(ValueError, match="test_batch"):
        list(read_cifar10(tmp_path, "test").examples)


def test_broken_pickles_are_refused(tmp_path, random):
    """Cut off and changed at random: an error that names the file, or an image, and never anything else."""
    write_python2_pickle(tmp_path / "test_batch", random.integers(256, size=(1, 3, 32, 32), dtype=np.uint8), [4])
    whole = (tmp_path / "test_batch").read_bytes()
    for trial in range(300):
        data = bytearray(whole[: random.integers(len(whole))] if trial % 2 else whole)
        for at in random.integers(120, size=3):
            data[at % len(data) : at % len(data) + 1] = random.bytes(1)
        (tmp_path / "test_batch").write_bytes(data)
        assert "test_batch" in message_of(lambda: list(read_cifar10(tmp_path, "test").examples))


def test_binary_files_that_are_cut_off_or_mislabeled_are_refused(tmp_path):
    file = tmp_path / "test_batch.bin"
    for data, message in {
        bytes(3073 + 3072): "cut off",
        b"": None,
        b"\x0a" + bytes(3072): "labels beyond 9",
    }.items():
        file.write_bytes(data)
        if message is None:
            assert list(read_cifar10(tmp_path, "test").examples) == []
            continue
        with pytest.raises(ValueError, match=rf"test_batch\.bin .*{message}"):
            list(read_cifar10(tmp_path, "test").examples)


def test_folders_and_archives_of_something_else(tmp_path):
    with pytest.raises(ValueError, match=r"neither test_batch\.bin nor test_batch: is it a folder or archive"):
        list(read_cifar10(tmp_path, "test").examples)
    with pytest.raises(ValueError, match="neither a folder nor an archive"):
        list(read_cifar10(tmp_path / "missing", "test").examples)


def test_broken_archives_are_refused(tmp_path, random):
    folder = tmp_path / "cifar-10-batches-bin"
    cifar10_files(folder, random, write_binary)
    whole = packed(folder, tmp_path / "cifar.tar.gz").read_bytes()
    for length in (0, 5, 100, len(whole) // 2, 3 * len(whole) // 4):
        (tmp_path / "cifar.tar.gz").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cifar\.tar\.gz cannot be read, download it again"):
            list(read_cifar10(tmp_path / "cifar.tar.gz", "train").examples)


def test_links_in_archives_lead_nowhere(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(3073))
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret.bin")
        tar.addfile(link)
    with pytest.raises(ValueError, match="neither"):
        list(read_cifar10(tmp_path / "cifar.tar.gz", "test").examples)


# STL-10


@pytest.mark.parametrize("archive", [False, True])
def test_stl10(tmp_path, random, archive):
    """Each channel lies column by column, and labels count from 1."""
    images = random.integers(256, size=(5, 3, 96, 96), dtype=np.uint8)
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for name, part in {"train": images[:2], "test": images[2:3], "unlabeled": images[3:]}.items():
        columns = [image[c, :, x].tobytes() for image in part for c in range(3) for x in range(96)]
        (folder / f"{name}_X.bin").write_bytes(b"".join(columns))
    (folder / "train_y.bin").write_bytes(bytes([1, 10]))
    (folder / "test_y.bin").write_bytes(bytes([4]))
    path = packed(folder, tmp_path / "stl10_binary.tar.gz") if archive else tmp_path
    expected = {
        "train": (images[:2], [0, 9]),
        "test": (images[2:3], [3]),
        "unlabeled": (images[3:], [-1, -1]),
        "train+unlabeled": (images[[0, 1, 3, 4]], [0, 9, -1, -1]),
    }
    for split, (pixels, labels) in expected.items():
        found, found_labels = collected(read_stl10(path, split))
        assert np.array_equal(found, pixels)
        assert found_labels == labels
    assert STL10_CLASSES[3] == "cat"


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (bytes(27648 + 5), bytes([1]), "train_X.bin is cut off"),
        (bytes(2 * 27648), bytes([1]), "longer than its labels"),
        (bytes(27648), bytes([1, 1]), "has 1 images, but there are 2 labels"),
        (bytes(27648), bytes([0]), "not from 1 to 10"),
        (bytes(27648), bytes([11]), "not from 1 to 10"),
        (bytes(27648), b"", "no labels"),
        (bytes(27648), None, r"train_y\.bin is missing"),
    ],
)
def test_stl10_files_that_do_not_fit_together(tmp_path, pixels, labels, message):
    (tmp_path / "train_X.bin").write_bytes(pixels)
    if labels is not None:
        (tmp_path / "train_y.bin").write_bytes(labels)
    with pytest.raises(ValueError, match=message):
        list(read_stl10(tmp_path, "train").examples)


# MATLAB files and Flowers-102


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_matlab_files_as_scipy_writes_them(tmp_path, random, dtype, compressed):
    arrays = {
        "labels": random.integers(100, size=(1, 37)).astype(dtype),
        "ab": random.integers(100, size=(3, 5)).astype(dtype),
        "a_longer_name": np.ones((1, 1), dtype),
        "cube": random.integers(100, size=(2, 3, 4)).astype(dtype),
    }
    scipy.io.savemat(tmp_path / "a.mat", arrays, do_compression=compressed)
    found = read_mat5(tmp_path / "a.mat")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("value", ["text", {"a": 1}, np.array([1 + 2j]), np.array(["a", 1], object)])
def test_matlab_files_with_anything_else_are_refused(tmp_path, value):
    scipy.io.savemat(tmp_path / "a.mat", {"labels": value}, do_compression=True)
    with pytest.raises(ValueError, match=r"a\.mat cannot be read"):
        read_mat5(tmp_path / "a.mat")


def test_broken_matlab_files_are_refused(tmp_path, random):
    scipy.io.savemat(tmp_path / "a.mat", {"labels": np.arange(50)}, do_compression=False)
    whole = (tmp_path / "a.mat").read_bytes()
    for length in range(0, len(whole), 7):
        if length == 128:
            continue
        (tmp_path / "a.mat").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"a\.mat cannot be read"):
            read_mat5(tmp_path / "a.mat")
    for _ in range(300):
        data = bytearray(whole)
        data[128 + random.integers(64)] = random.integers(256)
        (tmp_path / "a.mat").write_bytes(data)
        assert "a.mat" in message_of(lambda: read_mat5(tmp_path / "a.mat"))


def test_a_matlab_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("care.data.readers.mat5.LARGEST_MATRIX", 1 << 20)
    bomb = zlib.compress(bytes(1 << 26))
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(header + struct.pack("<II", 15, len(bomb)) + bomb)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        read_mat5(tmp_path / "a.mat")


def flowers(folder, random, labels=(3, 102, 1), **splits):
    (folder / "jpg").mkdir(parents=True)
    for number in range(1, len(labels) + 1):
        Image.fromarray(random.integers(256, size=(20, 30, 3), dtype=np.uint8)).save(
            folder / f"jpg/image_{number:05d}.jpg"
        )
    splits = {"trnid": [2], "valid": [3], "tstid": [1]} | splits
    scipy.io.savemat(folder / "imagelabels.mat", {"labels": np.array([labels], np.uint8)}, do_compression=True)
    matrices = {name: np.array([ids], np.uint16) for name, ids in splits.items()}
    scipy.io.savemat(folder / "setid.mat", matrices, do_compression=True)


def test_flowers(tmp_path, random):
    flowers(tmp_path / "flowers-102", random)
    for split, (number, label) in {"train": (2, 101), "val": (3, 0), "test": (1, 2)}.items():
        for path in (tmp_path, tmp_path / "flowers-102"):
            images, labels = collected(read_flowers(path, split, 20))
            with Image.open(tmp_path / f"flowers-102/jpg/image_{number:05d}.jpg") as picture:
                center = np.asarray(picture.crop((5, 0, 25, 20)))
            assert np.array_equal(images[0].transpose(1, 2, 0), center)
            assert labels == [label]
    assert (len(FLOWER_CLASSES), FLOWER_CLASSES[73]) == (102, "rose")


@pytest.mark.parametrize("wrong", [{"labels": (0, 1, 1)}, {"labels": (103, 1, 1)}, {"trnid": [4]}, {"trnid": [0]}])
def test_flowers_with_numbers_out_of_range(tmp_path, random, wrong):
    flowers(tmp_path / "f", random, **wrong)
    with pytest.raises(ValueError, match="not from 1 to"):
        read_flowers(tmp_path / "f", "train", 20)


def test_flowers_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"imagelabels\.mat is missing: is .* the folder of Flowers-102"):
        read_flowers(tmp_path, "train", 20)


# Pictures in folders


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
    assert (images[:, 0, 0, 0].tolist(), labels) == ([3, 2, 1], [0, 0, 1])
    assert collected(read_folder(tmp_path, "val", 4))[1] == [1]
    assert folder_splits(tmp_path / "train") == ("train",)  # flat: FOLDER/CLASS
    assert collected(read_folder(tmp_path / "train", "train", 4))[1] == [0, 0, 1]


def test_folders_that_are_something_else(tmp_path):
    with pytest.raises(ValueError, match="has no folders of classes"):
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
    bad, good = read_folder(tmp_path, "train", 8).examples
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


def test_the_order_of_pictures_is_kept_over_many(tmp_path):
    for i in range(600):
        save(tmp_path / f"a/{i:03d}.png", Image.new("RGB", (1, 1), (i % 251, 0, 0)))
    images, _ = collected(read_folder(tmp_path, "train", 1))
    assert images[:, 0, 0, 0].tolist() == [i % 251 for i in range(600)]


def test_the_class_names_are_known():
    assert (len(CIFAR10_CLASSES), CIFAR10_CLASSES[0], CIFAR10_CLASSES[9]) == (10, "airplane", "truck")
    assert (CIFAR100_CLASSES[0], CIFAR100_CLASSES[99]) == ("apple", "worm")
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)
