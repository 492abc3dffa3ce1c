"""The store: what is written is what is read, and nothing broken is read at all."""

import hashlib
import json
import os
import tracemalloc

import numpy as np
import pytest
import torch

from care.atomic_files import seal
from care.data import open_store, write_store
from care.data.readers import DataSource, Example
from data.by_hand import CLASSES


def test_the_files_are_what_the_documentation_says(store, images):
    assert (store / "images-00000.bin").read_bytes() == images.numpy().tobytes()
    assert (store / "labels.bin").read_bytes() == np.array([0, 1, 0, -1, 1, 0], "<i8").tobytes()
    header = json.loads((store / "store.json").read_text())
    block = images.numpy().tobytes() + (store / "labels.bin").read_bytes()  # of 16 rows, and there are six
    assert (store / "blocks.sha256").read_bytes() == hashlib.sha256(block).digest()
    assert header["blocks_sha256"] == hashlib.sha256((store / "blocks.sha256").read_bytes()).hexdigest()
    assert (header["block_rows"], header["shard_bytes"]) == (16, 2**30)
    assert header["labels_sha256"] == hashlib.sha256((store / "labels.bin").read_bytes()).hexdigest()
    text = (store / "store.json").read_bytes()
    blank = text.replace(header["sha256"].encode(), b"0" * 64)
    assert header["sha256"] == hashlib.sha256(blank).hexdigest()
    assert {key: header[key] for key in ("name", "split", "count", "height", "width", "classes", "skipped")} == {
        "name": "pets", "split": "train", "count": 6, "height": 4, "width": 5, "classes": ["cat", "dog"], "skipped": [],
    }  # fmt: skip
    assert sorted(file.name for file in store.iterdir()) == [
        "blocks.sha256", "images-00000.bin", "labels.bin", "store.json",
    ]  # fmt: skip


@pytest.mark.parametrize("verify", [False, True])
def test_what_was_written_is_read(store, images, verify):
    ticks = []
    samples = open_store(store, verify, ticks.append)
    assert ticks == ([6] if verify else [])
    assert torch.equal(samples.inputs, images)
    assert samples.labels.tolist() == [0, 1, 0, -1, 1, 0]
    assert (samples.classes, samples.name, samples.input_shape, len(samples)) == (CLASSES, "pets", (4, 5), 6)


def test_images_are_mapped_and_not_read(tmp_path):
    """A store of a gigabyte of nothing opens without a gigabyte."""
    folder = tmp_path / "big"
    write_store(folder, "big", "train", DataSource("", (), 1, 1, 1, iter([Example(np.zeros((3, 1, 1), np.uint8), -1)])))
    labels = np.full(1000, -1, "<i8").tobytes()
    change_header(
        folder, count=1000, height=1024, width=341, shard_bytes=2**32, labels_sha256=hashlib.sha256(labels).hexdigest()
    )
    os.truncate(folder / "images-00000.bin", 1000 * 3 * 1024 * 341)
    (folder / "labels.bin").write_bytes(labels)
    tracemalloc.start()
    samples = open_store(folder)
    assert samples.inputs[999].sum() == 0
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def change_header(store, **changes):
    """A header with other fields and a checksum that is right: somebody made it so."""
    header = json.loads((store / "store.json").read_text()) | {"sha256": "0" * 64} | changes
    present = {key: value for key, value in header.items() if value != "ABSENT"}
    (store / "store.json").write_bytes(seal(json.dumps(present, separators=(",", ":")).encode()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, "ABSENT") for key in ("format", "version", "name", "split", "count", "height", "width", "classes")),
        *((key, "ABSENT") for key in ("shard_bytes", "block_rows", "blocks_sha256", "labels_sha256")),
        *((key, "ABSENT") for key in ("source", "skipped", "fingerprint")),
        ("version", 1), ("format", "zip"), ("name", 3), ("width", None), ("height", -4), ("height", 2**40),
        ("count", -1), ("count", 0), ("count", 10**30), ("count", 2**32), ("count", 7), ("count", 6.0), ("count", True),
        ("count", "6"), ("classes", ["cat"]), ("classes", "cat"), ("classes", [1, 2]),
        ("blocks_sha256", {}),
        ("shard_bytes", 0), ("shard_bytes", 100), ("shard_bytes", 2**60), ("block_rows", 0),
        ("labels_sha256", "ab"), ("skipped", {}),
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


@pytest.mark.parametrize("file", ["images-00000.bin", "labels.bin"])
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


@pytest.mark.parametrize("file", ["images-00000.bin", "labels.bin", "blocks.sha256"])
def test_a_flipped_bit_is_seen_by_the_checksum(store, file):
    data = bytearray((store / file).read_bytes())
    data[0] ^= 1
    (store / file).write_bytes(data)
    with pytest.raises(ValueError, match=f"{file} is not usable: (its|the) checksum"):
        open_store(store, verify=True)


def test_pictures_are_not_read_for_their_checksum_unless_asked_to(store, images):
    (store / "images-00000.bin").write_bytes(bytes(images.numel()))
    assert open_store(store).inputs.sum() == 0


@pytest.mark.parametrize("damage", [{"sha256": "ab" * 32}, {"sha256": {}}, {"source": "elsewhere"}, {}])
def test_a_header_without_its_checksum_is_refused(store, damage):
    header = json.loads((store / "store.json").read_text()) | damage
    if not damage:
        del header["sha256"]
    (store / "store.json").write_text(json.dumps(header, indent=1, separators=(",", ":")))
    with pytest.raises(ValueError, match=r"store\.json is not usable: its checksum does not match"):
        open_store(store)


def test_a_header_of_another_version_says_so(store):
    (store / "store.json").write_text('{"format": "care image store", "version": 2}')
    with pytest.raises(ValueError, match="it is not a care image store of version 3; prepare the data again"):
        open_store(store)


def test_labels_out_of_range_are_refused_without_checksums_too(store):
    (store / "labels.bin").write_bytes(np.array([0, 1, 0, -1, 2, 0], "<i8").tobytes())
    with pytest.raises(ValueError, match=r"labels\.bin is not usable: labels go from -1 to 2, but there are 2 classes"):
        open_store(store)


def test_a_folder_that_is_no_store(tmp_path):
    with pytest.raises(ValueError, match="is not an image store"):
        open_store(tmp_path)
