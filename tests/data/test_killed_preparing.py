"""Preparing that is killed, or has no room left, goes on: the store is the same to the last byte."""

import dataclasses
import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from care.data import partial_store, write_store
from care.data.readers import read_folder
from care.data.registry import prepared_names, prepared_splits
from data.preparing import FILES, SHARD, SIDE, contents, prepare
from train.small import mounted

pytestmark = [
    pytest.mark.usefixtures("small_blocks"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # the test process has threads
]


def in_a_fork(work):
    """How a child process that does this ends."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(moment, folder, photos):
    """Of `prepare`, in a child process; a journal is written after every block."""
    partial_store.SECONDS_BETWEEN_SAVES = 0.0
    if moment == "complete":  # the last moment: everything is written, nothing is renamed
        partial_store.move_durably = kill
    if moment == "journal":
        whole, calls = partial_store.write_atomically, []
        partial_store.write_atomically = lambda *a: kill() if len(calls) == 9 else calls.append(whole(*a))
    when = {"begun": 0, "reading": 13}.get(moment, 99)
    prepare(folder, photos, tick=lambda read: kill() if read == when else None)


@pytest.mark.parametrize(("moment", "after"), {"begun": None, "reading": 13, "journal": 9, "complete": FILES}.items())
def test_it_goes_on_after_a_kill(moment, after, tmp_path, photos, undisturbed):
    folder = tmp_path / moment / "train"
    assert in_a_fork(lambda: killed_at(moment, folder, photos)) == -signal.SIGKILL
    assert (prepared_names(tmp_path), prepared_splits(moment, tmp_path)) == ((), ())
    assert len(list((tmp_path / moment).iterdir())) == 1
    _, said = prepare(folder, photos, workers=1)
    assert [line.split(",")[0] for line in said[:1]] == ([f"goes on after {after} of {FILES} files"] if after else [])
    assert contents(folder) == undisturbed


def test_a_full_disk_keeps_what_is_written(tmp_path, photos, monkeypatch):
    """The disk is said to have room, fills up, is emptied, and the store is completed."""
    monkeypatch.setattr(partial_store, "SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("care.data.store_writer._check_room", lambda partial: None)
    with mounted(tmp_path / "disk", megabytes=1):
        folder, ballast = tmp_path / "disk" / "pets" / "train", tmp_path / "disk" / "ballast"
        ballast.write_bytes(bytes(600_000))
        with pytest.raises(
            OSError, match=r"pets/train could not be written: the disk is full, and [\d,]+ bytes more are"
        ) as no:
            prepare(folder, photos, side=100)
        assert no.value.errno == errno.ENOSPC
        assert str(no.value.strerror).endswith(
            "make room and run the same command again, which goes on where this stopped"
        )
        ballast.unlink()
        _, said = prepare(folder, photos, side=100)
        assert said[0].startswith("goes on after ")
        found = contents(folder)
    prepare(tmp_path / "train", photos, side=100)
    assert found == contents(tmp_path / "train")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads decode elsewhere")
def test_the_processes_of_a_killed_one_write_nothing_more(tmp_path, photos, undisturbed):
    """They end by themselves, in the middle of their work; as long as one lives, nobody else begins."""
    source = read_folder(photos, "train", SIDE)

    class Stuck:
        __len__, fingerprint = source.examples.__len__, source.examples.fingerprint

        def __getitem__(self, index):
            if index > 5:
                (tmp_path / f"{os.getpid()}.pid").touch()
                time.sleep(600)
            return source.examples[index]

    if (child := os.fork()) == 0:
        try:
            stuck = dataclasses.replace(source, examples=Stuck())
            write_store(tmp_path / "train", "pets", "train", stuck, workers=2, shard_bytes=SHARD)
        finally:
            os._exit(1)
    while len(orphans := list(tmp_path.glob("*.pid"))) < 2:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    prepare(tmp_path / "train", photos)
    status = [Path(f"/proc/{orphan.stem}/status") for orphan in orphans]
    assert all("zombie" in file.read_text() for file in status if file.exists())
    assert contents(tmp_path / "train") == undisturbed
