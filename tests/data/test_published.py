"""CIFAR and STL-10, against files written by hand, by pickle and by tar."""

import pickle
import struct
import tarfile

import numpy as np
import pytest

from care.data.readers import read_cifar10, read_cifar100, read_stl10
from care.data.readers.classes import CIFAR10_CLASSES, CIFAR100_CLASSES, STL10_CLASSES
from data.reading import collected, message_of, packed


@pytest.fixture
def random():
    return np.random.default_rng(0)


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
        bytes(3073 + 3072): "truncated",
        b"": None,
        b"\x0a" + bytes(3072): "labels outside 0 to 9",
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
        (bytes(27648 + 5), bytes([1]), "train_X.bin is truncated"),
        (bytes(2 * 27648), bytes([1]), "longer than its labels"),
        (bytes(27648), bytes([1, 1]), "has 1 images, but there are 2 labels"),
        (bytes(27648), bytes([0]), "labels outside 1 to 10"),
        (bytes(27648), bytes([11]), "labels outside 1 to 10"),
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


def test_the_class_names_are_known():
    assert (len(CIFAR10_CLASSES), CIFAR10_CLASSES[0], CIFAR10_CLASSES[9]) == (10, "airplane", "truck")
    assert (CIFAR100_CLASSES[0], CIFAR100_CLASSES[99]) == ("apple", "worm")
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)
