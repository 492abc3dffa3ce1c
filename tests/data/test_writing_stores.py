"""Writing a store: all of it or nothing, and what was left out is recorded."""

import errno
import os

import numpy as np
import pytest
import torch

from care.data import blocks, open_store, write_store
from care.data.readers import DataSource, Example
from care.data.readers.source import default_skip
from care.data.store import read_header
from care.data.store_writer import TooManyUnreadable
from data.by_hand import CLASSES, source_of
from train.small import mounted


def test_a_store_is_replaced_only_on_request(store, images):
    with pytest.raises(ValueError, match="exists: `overwrite` replaces it"):
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
        write_store(store, "pets", "train", DataSource("", CLASSES, 4, 5, 2, failing()), overwrite=True)
    assert len(open_store(store, verify=True)) == 6
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


def test_a_store_that_cannot_be_replaced_is_still_there(store, images, monkeypatch):
    """The old folder is renamed, the new one cannot be, and the old one comes back."""

    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="train could not be written: Input/output error"):
        write_store(store, "pets", "train", source_of(images[:2], [0, 1]), overwrite=True)
    assert len(open_store(store, verify=True)) == 6
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


def test_two_at_once_do_not_mix(store, images):
    """While one process writes a store, another one is told to wait."""

    def examples():
        yield Example(images[0].numpy(), 0)
        with pytest.raises(ValueError, match="train is being prepared by another process: wait until it ends"):
            write_store(store, "pets", "train", source_of(images[:3], [0, 1, 0]), overwrite=True)
        yield Example(images[1].numpy(), 1)

    write_store(store, "pets", "train", DataSource("", CLASSES, 4, 5, 2, examples()), overwrite=True)
    assert torch.equal(open_store(store, verify=True).inputs, images[:2])
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


def test_a_store_that_does_not_fit_is_refused_before_it_is_begun(tmp_path):
    source = DataSource("", (), 300, 300, 10**9, iter([]))
    with pytest.raises(OSError, match=r"train does not fit on its disk: it needs 270,008,000,000,000 more bytes, but "):
        write_store(tmp_path / "pets" / "train", "pets", "train", source)
    assert list((tmp_path / "pets").iterdir()) == []


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    blank = (Example(np.zeros((3, 300, 300), np.uint8), -1) for _ in range(10))
    with mounted(tmp_path / "disk", megabytes=1):
        with pytest.raises(OSError, match=r"pets/train could not be written: the disk is full, and ") as caught:
            write_store(tmp_path / "disk" / "pets" / "train", "pets", "train", DataSource("", (), 300, 300, 3, blank))
        assert caught.value.errno == errno.ENOSPC
        assert list((tmp_path / "disk" / "pets").iterdir()) == []


def test_a_source_that_cannot_be_read_keeps_its_own_error(tmp_path):
    def examples():
        yield Example(np.zeros((3, 4, 5), np.uint8), 0)
        (tmp_path / "missing" / "batch.bin").open("rb")

    with pytest.raises(FileNotFoundError, match=r"^\[Errno 2\] No such file or directory: .*batch\.bin"):
        write_store(tmp_path / "stores" / "train", "pets", "train", DataSource("", CLASSES, 4, 5, 2, examples()))
    assert list((tmp_path / "stores").iterdir()) == []


def test_skipped_files_are_counted_and_recorded(tmp_path, images):
    for skip in (0, 1):
        with pytest.raises(
            TooManyUnreadable,
            match=rf"2 of 4 files cannot be read, and at most {skip} may be left out; `skip` 2 leaves them out",
        ) as caught:
            write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=2), skip=skip)
        assert caught.value.skipped == ["bad0.jpg: is empty", "bad1.jpg: is empty"]
    with pytest.raises(TooManyUnreadable, match=r"1 of 3 files .* `skip` 1 leaves it out$"):
        write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=1), skip=0)
    assert list(tmp_path.iterdir()) == []
    write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=2), skip=2)
    assert torch.equal(open_store(tmp_path / "a", verify=True).inputs, images[:2])
    assert read_header(tmp_path / "a").skipped == ["bad0.jpg: is empty", "bad1.jpg: is empty"]
    assert (tmp_path / "a" / "skipped.txt").read_text() == "bad0.jpg: is empty\nbad1.jpg: is empty\n"


@pytest.mark.parametrize(("bad", "skip", "found"), [(19, 0, 19), (90, 0, 20), (61, 60, 61), (90, 60, 80)])
def test_all_unreadable_files_are_looked_for_but_not_for_ever(tmp_path, images, bad, skip, found, monkeypatch):
    """Until there are 20 more than may be skipped; here blocks are of one file."""
    monkeypatch.setattr(blocks, "FEWEST_ROWS", 1)
    ticks, source = [], source_of(images[:2], [0, 1], bad=bad)
    with pytest.raises(TooManyUnreadable, match=f"`skip` {found} leaves") as error:
        write_store(tmp_path / "a", "pets", "train", source, skip, tick=ticks.append)
    assert len(error.value.skipped) == found
    assert ticks[-1] == (1 + found if found < bad else bad + 2)  # the first example can be read
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("files", "most"), [(3, 10), (1000, 10), (1001, 11), (1_000_000, 10_000)])
def test_one_percent_may_be_skipped_and_always_ten(files, most):
    assert default_skip(files) == most


def test_the_header_records_the_first_thousand(tmp_path, images):
    write_store(tmp_path / "a", "pets", "train", source_of(images[:2], [0, 1], bad=1100), skip=1100)
    assert len(read_header(tmp_path / "a").skipped) == 1000
    assert len((tmp_path / "a" / "skipped.txt").read_text().splitlines()) == 1100


def test_what_does_not_belong_is_not_written(tmp_path, images):
    wrong = {
        "label 2, but there are 2 classes": source_of(images[:1], [2]),
        "label -2": source_of(images[:1], [-2]),
        r"uint8 \(3, 4, 4\) instead of uint8 \(3, 4, 5\)": source_of(images[:1, :, :, :4], [0]),
        "there are no images": source_of(images[:0], []),
    }
    for message, source in wrong.items():
        with pytest.raises(ValueError, match=message):
            write_store(tmp_path / "store", "pets", "train", source)
    assert list(tmp_path.iterdir()) == []
