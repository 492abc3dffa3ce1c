"""Writing a store: all of it or nothing, and what was left out is recorded."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from care.data import open_store, write_store
from care.data.readers import Example, Source
from care.data.registry import prepared_names, prepared_splits
from care.data.store import read_header
from data.by_hand import CLASSES, source_of
from train.small import mounted


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
    """While one store is written, another process replaces it: the last one to finish wins, and both are complete."""

    def examples():
        yield Example(images[0].numpy(), 0)
        write_store(store, "pets", "train", source_of(images[:3], [0, 1, 0]), overwrite=True)
        assert len(open_store(store, verify=True)) == 3
        yield Example(images[1].numpy(), 1)

    write_store(store, "pets", "train", Source("", CLASSES, 4, 5, 2, examples()), overwrite=True)
    assert torch.equal(open_store(store, verify=True).inputs, images[:2])
    assert [folder.name for folder in store.parent.iterdir()] == ["train"]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    blank = (Example(np.zeros((3, 300, 300), np.uint8), -1) for _ in range(10))
    with mounted(tmp_path / "disk", megabytes=1):
        with pytest.raises(OSError, match="pets/train could not be written: No space left") as caught:
            write_store(tmp_path / "disk" / "pets" / "train", "pets", "train", Source("", (), 300, 300, 10, blank))
        assert caught.value.errno == errno.ENOSPC
        assert list((tmp_path / "disk" / "pets").iterdir()) == []


def test_a_source_that_cannot_be_read_keeps_its_own_error(tmp_path):
    def examples():
        yield Example(np.zeros((3, 4, 5), np.uint8), 0)
        (tmp_path / "missing" / "batch.bin").open("rb")

    with pytest.raises(FileNotFoundError, match=r"^\[Errno 2\] No such file or directory: .*batch\.bin"):
        write_store(tmp_path / "stores" / "train", "pets", "train", Source("", CLASSES, 4, 5, 2, examples()))
    assert list((tmp_path / "stores").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from care.data.readers import Example, Source
from care import atomic_files
from care.data import write_store

def examples(moment):
    for i in range(100):
        yield Example(np.zeros((3, 4, 5), np.uint8), 0)
    if moment == "reading":
        os.kill(os.getpid(), signal.SIGKILL)

def prepare(moment):
    if moment == "complete":  # the last moment: everything is written, nothing is renamed
        atomic_files._sync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
    folder = Path(sys.argv[1]) / moment / "train"
    write_store(folder, moment, "train", Source("", ("cat",), 4, 5, 100, examples(moment)))

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
        "not a single image": source_of(images[:0], []),
    }
    for message, source in wrong.items():
        with pytest.raises(ValueError, match=message):
            write_store(tmp_path / "store", "pets", "train", source)
    assert list(tmp_path.iterdir()) == []
