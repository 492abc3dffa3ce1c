"""MATLAB files as SciPy writes them, and Flowers-102."""

import struct
import zlib

import numpy as np
import pytest
import scipy.io
from PIL import Image

from care.data.readers import read_flowers
from care.data.readers.classes import CIFAR10_CLASSES, CIFAR100_CLASSES, FLOWER_CLASSES, STL10_CLASSES
from care.data.readers.mat5 import read_mat5
from data.reading import collected, message_of


@pytest.fixture
def random():
    return np.random.default_rng(0)


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
    assert sorted(collected(read_flowers(tmp_path, "train+val+test", 20))[1]) == [0, 2, 101]
    assert (len(FLOWER_CLASSES), FLOWER_CLASSES[73]) == (102, "rose")


@pytest.mark.parametrize("wrong", [{"labels": (0, 1, 1)}, {"labels": (103, 1, 1)}, {"trnid": [4]}, {"trnid": [0]}])
def test_flowers_with_numbers_out_of_range(tmp_path, random, wrong):
    flowers(tmp_path / "f", random, **wrong)
    with pytest.raises(ValueError, match="outside 1 to"):
        read_flowers(tmp_path / "f", "train", 20)


def test_flowers_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"imagelabels\.mat is missing: is .* the folder of Flowers-102"):
        read_flowers(tmp_path, "train", 20)


@pytest.mark.parametrize("names", [CIFAR10_CLASSES, CIFAR100_CLASSES, STL10_CLASSES, FLOWER_CLASSES])
def test_names_of_classes_are_of_one_line(names):
    assert all(name == " ".join(name.split()) and name for name in names)
