"""Samples and the store: what is written is what is read, and nothing broken is read at all."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch

from care.data import Samples, open_store, write_store
from care.data.readers import Example, Source, Unreadable
from care.data.registry import prepared_names, prepared_splits
from care.data.store import read_header

CLASSES = ("cat", "dog")


@pytest.fixture
def images(generator):
    return torch.randint(256, (6, 3, 4, 5), dtype=torch.uint8, generator=generator)


def source_of(images, labels, bad=0, classes=CLASSES):
    examples = [Example(image.numpy(), label) for image, label in zip(images, labels, strict=True)]
    examples[1:1] = [Unreadable(f"bad{i}.jpg", "is empty") for i in range(bad)]
    return Source("by hand", classes, 4, 5, len(examples), iter(examples))


@pytest.fixture
def store(tmp_path, images):
    folder = tmp_path / "pets" / "train"
    write_store(folder, "pets", "train", source_of(images, [0, 1, 0, -1, 1, 0]))
    return folder


def test_the_files_are_what_the_documentation_says(store, images):
    assert (store / "images.bin").read_bytes() == images.numpy().tobytes()
    assert (store / "labels.bin").read_bytes() == np.array([0, 1, 0, -1, 1, 0], "<i8").tobytes()
    header = json.loads((store / "store.json").read_text())
    assert header["sha256"]["images.bin"] == hashlib.sha256(images.numpy().tobytes()).hexdigest()
    assert {key: header[key] for key in ("name", "split", "count", "height", "width", "classes", "skipped")} == {
        "name": "pets", "split": "train", "count": 6, "height": 4, "width": 5, "classes": ["cat", "dog"], "skipped": [],
    }  # fmt: skip
    assert sorted(file.name for file in store.iterdir()) == ["images.bin", "labels.bin", "store.json"]


@pytest.mark.parametrize("verify", [False, True])
def test_what_was_written_is_read(store, images, verify):
    samples = open_store(store, verify)
    assert torch.equal(samples.inputs, images)
    assert samples.labels.tolist() == [0, 1, 0, -1, 1, 0]
    assert (samples.classes, samples.name, samples.source, len(samples)) == (CLASSES, "pets", (4, 5), 6)


def test_images_are_mapped_and_not_read(tmp_path):
    """A store of a gigabyte of nothing opens without a gigabyte."""
    folder = tmp_path / "big"
    write_store(folder, "big", "train", Source("", (), 1, 1, 1, iter([Example(np.zeros((3, 1, 1), np.uint8), -1)])))
    labels = np.full(1000, -1, "<i8").tobytes()
    sums = {"images.bin": "", "labels.bin": hashlib.sha256(labels).hexdigest()}
    change_header(folder, count=1000, height=1024, width=341, sha256=sums)
    os.truncate(folder / "images.bin", 1000 * 3 * 1024 * 341)
    (folder / "labels.bin").write_bytes(labels)
    tracemalloc.start()
    samples = open_store(folder)
    assert samples.inputs[999].sum() == 0
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def change_header(store, **changes):
    """A header with other entries, and without its own checksum: somebody made it so."""
    header = json.loads((store / "store.json").read_text())
    header["sha256"].pop("store.json", None)
    header |= changes
    (store / "store.json").write_text(json.dumps({key: value for key, value in header.items() if value != "ABSENT"}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, "ABSENT") for key in ("format", "version", "name", "split", "count", "height", "width", "classes")),
        *((key, "ABSENT") for key in ("sha256", "source", "skipped")),
        ("version", 2), ("format", "zip"), ("name", 3), ("width", None), ("height", -4), ("height", 2**40),
        ("count", -1), ("count", 0), ("count", 10**30), ("count", 2**32), ("count", 7), ("count", 6.0), ("count", True),
        ("count", "6"), ("classes", ["cat"]), ("classes", "cat"), ("classes", [1, 2]),
        ("sha256", {}), ("sha256", "ab"), ("skipped", {}),
    ],
)  # fmt: skip
def test_a_header_that_is_wrong_is_refused_before_anything_is_allocated(store, key, value):
    change_header(store, **{key: value})
    tracemalloc.start()
    with pytest.raises(ValueError, match=rf"^{store}/\S+ is not usable: .*; prepare the data again"):
        open_store(store)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_numbers_that_are_wrong_but_multiply_to_the_right_size_are_refused(store):
    for wrong in ({"height": -4, "width": -5}, {"height": 4.0}, {"height": 20, "width": True}):
        change_header(store, **{"height": 4, "width": 5} | wrong)
        with pytest.raises(
            ValueError, match=r"store\.json is not usable: (height|width) is not a whole number from 1 to"
        ):
            open_store(store)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\xff", '{"count": 1e999}', "9" * 5000])
def test_a_header_that_is_no_header_is_refused(store, text):
    (store / "store.json").write_text(text, encoding="latin1")
    with pytest.raises(ValueError, match=r"store\.json is not usable"):
        open_store(store)


def test_a_huge_header_is_not_read(store):
    os.truncate(store / "store.json", 1 << 30)
    with pytest.raises(ValueError, match="more than 16777216 bytes"):
        open_store(store)


@pytest.mark.parametrize("file", ["images.bin", "labels.bin"])
def test_files_of_another_length_are_refused(store, file):
    data = (store / file).read_bytes()
    for broken in (data[:-1], data + b"\0", b""):
        (store / file).write_bytes(broken)
        with pytest.raises(
            ValueError, match=f"{file} is not usable: it has {len(broken)} bytes instead of {len(data)}"
        ):
            open_store(store)
    (store / file).unlink()
    with pytest.raises(ValueError, match=f"{file} is not usable: it is missing"):
        open_store(store)


@pytest.mark.parametrize("file", ["images.bin", "labels.bin"])
def test_a_flipped_bit_is_seen_by_the_checksum(store, file):
    data = bytearray((store / file).read_bytes())
    data[0] ^= 1
    (store / file).write_bytes(data)
    with pytest.raises(ValueError, match=f"{file} is not usable: its checksum"):
        open_store(store, verify=True)


def test_pictures_are_not_read_for_their_checksum_unless_asked_to(store, images):
    (store / "images.bin").write_bytes(bytes(images.numel()))
    assert open_store(store).inputs.sum() == 0


def test_headers_without_a_checksum_of_their_own_are_read(store):
    """As the first version wrote them."""
    change_header(store)
    assert len(open_store(store, verify=True)) == 6


def test_labels_out_of_range_are_refused_without_checksums_too(store):
    (store / "labels.bin").write_bytes(np.array([0, 1, 0, -1, 2, 0], "<i8").tobytes())
    with pytest.raises(ValueError, match=r"labels\.bin is not usable: labels go from -1 to 2, there are 2 classes"):
        open_store(store)


def test_a_folder_that_is_no_store(tmp_path):
    with pytest.raises(ValueError, match="is not an image store"):
        open_store(tmp_path)


def test_a_store_is_replaced_only_on_request(store, images):
    with pytest.raises(ValueError, match="exists; --overwrite replaces it"):
        write_store(store, "pets", "train", source_of(images[:2], [0, 1]))
    assert len(open_store(store)) == 6
    write_store(store, "pets", "train", source_of(images[:2], [0, 1]), overwrite=True)
    assert len(open_store(store)) == 2
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


def test_an_error_leaves_the_old_store_and_nothing_else(store, images):
    def failing():
        yield Example(images[0].numpy(), 0)
        raise OSError("the disk fell off the table")

    with pytest.raises(OSError, match="table"):
        write_store(store, "pets", "train", Source("", CLASSES, 4, 5, 2, failing()), overwrite=True)
    assert len(open_store(store, verify=True)) == 6
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from care.data.readers import Example, Source
import care.data.store as store

def examples(moment):
    for i in range(100):
        yield Example(np.zeros((3, 4, 5), np.uint8), 0)
    if moment == "reading":
        os.kill(os.getpid(), signal.SIGKILL)

def prepare(moment):
    if moment == "complete":  # the last moment: everything is written, nothing is renamed
        store._flush_to_disk = lambda path: os.kill(os.getpid(), signal.SIGKILL)
    folder = Path(sys.argv[1]) / moment / "train"
    store.write_store(folder, moment, "train", Source("", ("cat",), 4, 5, 100, examples(moment)))

for moment in ("reading", "complete"):
    if (child := os.fork()) == 0:
        prepare(moment)
    print(moment, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_killed_preparation_leaves_nothing_that_reads_as_a_store(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == f"reading {-signal.SIGKILL}\ncomplete {-signal.SIGKILL}\n"
    for moment in ("reading", "complete"):
        assert len(list((tmp_path / moment).iterdir())) == 1  # it was under way
        assert not (tmp_path / moment / "train").exists()
        assert prepared_splits(moment, tmp_path) == ()
    assert prepared_names(tmp_path) == ()


def test_skipped_files_are_counted_and_recorded(tmp_path, images):
    both = r"^2 unreadable files: bad0\.jpg: is empty; bad1\.jpg: is empty; --skip 2 leaves them out$"
    for skip in (0, 1):
        with pytest.raises(ValueError, match=both):
            write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=2), skip=skip)
    with pytest.raises(ValueError, match=r"^1 unreadable file: bad0\.jpg: is empty; --skip 1 leaves it out$"):
        write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=1))
    assert list(tmp_path.iterdir()) == []
    write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=2), skip=2)
    assert torch.equal(open_store(tmp_path / "a", verify=True).inputs, images[:2])
    assert read_header(tmp_path / "a").skipped == ["bad0.jpg: is empty", "bad1.jpg: is empty"]


@pytest.mark.parametrize(("bad", "skip", "found"), [(19, 0, 19), (90, 0, 20), (61, 60, 61), (90, 60, 80)])
def test_all_unreadable_files_are_looked_for_but_not_for_ever(tmp_path, images, bad, skip, found):
    """Until there are 20 more than may be skipped. The first 20 are named."""
    ticks, source = [], source_of(images[:2], [0, 1], bad=bad)
    with pytest.raises(ValueError, match=f"{found} unreadable files: bad0.jpg: is empty; bad1") as error:
        write_store(tmp_path / "a", "pets", "train", source, skip, tick=ticks.append)
    message, stopped = str(error.value), found < bad
    assert len(ticks) == (1 + found if stopped else bad + 2)  # the first example can be read
    assert message.startswith("at least ") == ("reading stopped there" in message) == stopped
    assert message.count("is empty") == min(found, 20)
    assert ("; and " in message) == (f"; and {found - 20} others; " in message) == (found > 20)
    assert f"--skip {found}" in message
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_belong_is_not_written(tmp_path, images):
    wrong = {
        "label 2, but there are 2 classes": source_of(images[:1], [2]),
        "label -2": source_of(images[:1], [-2]),
        r"uint8 \(3, 4, 4\) instead of uint8 \(3, 4, 5\)": source_of(images[:1, :, :, :4], [0]),
        "not a single picture": source_of(images[:0], []),
    }
    for message, source in wrong.items():
        with pytest.raises(ValueError, match=message):
            write_store(tmp_path / "store", "pets", "train", source)
    assert list(tmp_path.iterdir()) == []


def test_limit_takes_the_first_without_copying(store):
    samples = open_store(store)
    assert torch.equal(samples.limit(2).inputs, samples.inputs[:2])
    assert samples.limit(2).inputs.data_ptr() == samples.inputs.data_ptr()
    for n in (0, -1, 7):
        with pytest.raises(ValueError, match=f"pets has 6 samples, {n} cannot be taken"):
            samples.limit(n)


def test_split_takes_the_last_of_each_class():
    labels = torch.tensor([0, 1, -1, 0, 0, 1, 1, -1])
    clouds = torch.arange(8.0)[:, None, None].expand(8, 5, 3)
    samples = Samples(clouds, labels, CLASSES, factors={"size": torch.arange(8.0), "pose": torch.rand(8, 2)})
    train, validation = samples.split(1)
    assert validation.inputs[:, 0, 0].tolist() == validation.factors["size"].tolist() == [4, 6]
    assert train.inputs[:, 0, 0].tolist() == [0, 1, 2, 3, 5, 7]
    assert validation.labels.tolist() == [0, 1]
    assert (train.source, train.classes) == ((5,), CLASSES)
    for per_class in (0, 3):
        with pytest.raises(ValueError, match=f"{per_class} of the 3 samples of class 'cat' cannot be validation"):
            samples.split(per_class)


def test_split_takes_the_last_of_all_where_there_are_no_classes():
    samples = Samples(torch.arange(5.0)[:, None, None].expand(5, 4, 3), torch.full((5,), -1), (), name="clouds")
    train, validation = (part.inputs[:, 0, 0].tolist() for part in samples.split(2))
    assert (train, validation) == ([0, 1, 2], [3, 4])
    for n in (0, 5):
        with pytest.raises(ValueError, match=f"{n} of the 5 samples cannot be validation: choose fewer, or none"):
            samples.split(n)


@pytest.mark.usefixtures("unchecked")
def test_samples_that_do_not_fit_together_are_refused():
    images, labels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"must be uint8 images .* got torch\.float32 \[2, 3, 4, 4\]"):
        Samples(images.float(), labels, CLASSES)
    with pytest.raises(ValueError, match="2 inputs but 1 labels"):
        Samples(images, labels[:1], CLASSES)
    with pytest.raises(ValueError, match="2 inputs but 3 hue"):
        Samples(images, labels, CLASSES, {"hue": torch.zeros(3)})
    with pytest.raises(ValueError, match="there are 0 classes"):
        Samples(images, labels, ())
