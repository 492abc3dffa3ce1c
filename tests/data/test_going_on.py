"""Preparing that is stopped, anywhere and by anything, and goes on: the store is the same to the last byte."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from care.data import batches, blocks, open_store, partial_store, write_store
from care.data.blocks import StoreFiles
from care.data.partial_store import PartialStore
from care.data.readers import Example, read_folder
from care.data.registry import prepared_names, prepared_splits
from care.data.store import read_header
from care.data.store_writer import TooManyUnreadable, is_prepared
from data.reading import save
from train.small import mounted

FILES, SIDE = 24, 8
SHARD = 1 << 16  # bytes: the smallest; 200 pixels are two shards to a picture, 8 are one shard in all


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """A block per file: what counts is in which blocks something happens."""
    monkeypatch.setattr(blocks, "FEWEST_ROWS", 1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """24 pictures of two classes, three of them broken."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(FILES):
        save(folder / "ab"[i % 2] / f"{i}.png", Image.new("RGB", (9, 9), (i, 2 * i, 255 - i)))
    for i in (3, 4, 15):
        (folder / "ab"[i % 2] / f"{i}.png").write_bytes(b"broken")
    return folder


@pytest.fixture(scope="module")
def undisturbed(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "train"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "FEWEST_ROWS", 1)
        prepare(folder, photos)
    return contents(folder)


def prepare(folder, photos, **options):
    """The header and what was said."""
    said, source = [], read_folder(photos, "train", options.pop("side", SIDE))
    options = {"workers": 2, "shard_bytes": SHARD} | options
    return write_store(folder, "pets", "train", source, say=said.append, **options), said


def files_of(photos):
    """The pictures one by one, in the order of a store."""
    return list(read_folder(photos, "train", SIDE).examples)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Stopped(BaseException):
    """As Ctrl-C, at a known moment."""


def stopping(after):
    def tick(read):
        if read >= after:
            raise Stopped

    return tick


def test_the_store_does_not_depend_on_the_number_of_workers(tmp_path, photos, undisturbed):
    prepare(tmp_path / "train", photos, workers=1)
    assert contents(tmp_path / "train") == undisturbed
    assert set(undisturbed) == {"images-00000.bin", "labels.bin", "blocks.sha256", "store.json", "skipped.txt"}


def test_the_last_rows_close_the_gaps(tmp_path, photos):
    """By hand: row i is that of file i; what cannot be read is replaced by the last that can."""
    prepare(tmp_path / "train", photos)
    read = [int(example.image[0, 0, 0]) if isinstance(example, Example) else None for example in files_of(photos)]
    missing = [i for i, red in enumerate(read) if red is None]
    assert len(missing) == 3
    for gap in missing:
        while read[-1] is None:
            read.pop()
        if gap < len(read):
            read[gap] = read.pop()
    samples = open_store(tmp_path / "train", verify=True)
    assert sorted(samples.inputs[:, 0, 0, 0].tolist()) == sorted(set(range(FILES)) - {3, 4, 15})
    assert len(samples) == len(read)
    kept = [i for i in range(len(read)) if i not in missing]
    assert [samples.inputs[i, 0, 0, 0].item() for i in kept] == [read[i] for i in kept]
    assert samples.labels.tolist() == [red % 2 for red in samples.inputs[:, 0, 0, 0].tolist()]


@pytest.mark.parametrize("shard_bytes", [1 << 16, 1 << 17, 1 << 30])
def test_shards_one_after_the_other_are_the_store_in_one_file(tmp_path, photos, shard_bytes):
    """A picture of 120,000 bytes lies in up to three shards."""
    header, _ = prepare(tmp_path / "train", photos, side=200, shard_bytes=shard_bytes)
    shards = sorted((tmp_path / "train").glob("images-*.bin"))
    assert len(shards) == -(-21 * 120_000 // shard_bytes)
    assert all(shard.stat().st_size == shard_bytes for shard in shards[:-1])
    whole = b"".join(shard.read_bytes() for shard in shards)
    prepare(tmp_path / "one", photos, side=200, shard_bytes=1 << 40)
    assert whole == (tmp_path / "one" / "images-00000.bin").read_bytes()
    assert header.blocks_sha256 == read_header(tmp_path / "one").blocks_sha256
    samples, one = open_store(tmp_path / "train", verify=True), open_store(tmp_path / "one")
    assert samples.digest() == one.digest()
    for epoch in range(2):
        order = samples.order(3, epoch)
        assert torch.equal(order, one.order(3, epoch))
        both = (batches(of, order.split(4), "cpu", resident=False) for of in (samples, one))
        assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))


@pytest.mark.parametrize("after", [0, 1, 7, 12, FILES])
def test_it_goes_on_where_it_was_stopped(tmp_path, photos, undisturbed, after):
    with pytest.raises(Stopped):
        prepare(tmp_path / "train", photos, tick=stopping(after))
    assert not (tmp_path / "train").exists()
    ticks = []
    _, said = prepare(tmp_path / "train", photos, tick=ticks.append)
    assert said == [f"goes on after {after} of {FILES} files, once their checksums are compared"]
    assert ticks == list(range(after, FILES + 1))  # none of the first is read again
    assert contents(tmp_path / "train") == undisturbed
    assert [entry.name for entry in tmp_path.iterdir()] == ["train"]


@pytest.mark.parametrize(
    ("owner", "method", "call"),
    [(PartialStore, "add", 1), (PartialStore, "add", 9), (PartialStore, "save", 10), (PartialStore, "close_gaps", 1),
     (StoreFiles, "truncate", 1)],
)  # fmt: skip
def test_it_goes_on_after_ctrl_c_between_any_two_writes(
    tmp_path, photos, undisturbed, monkeypatch, owner, method, call
):
    """After every block there is a journal; blocks that closed a gap are not what it says, and are made again."""
    monkeypatch.setattr(partial_store, "SECONDS_BETWEEN_SAVES", 0.0)
    calls, whole = [], getattr(owner, method)

    def stopped(self, *data):
        calls.append(method)
        found = whole(self, *data)
        if len(calls) == call:
            raise Stopped
        return found

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, stopped)
        with pytest.raises(Stopped):
            prepare(tmp_path / "train", photos)
    assert len(calls) >= call
    prepare(tmp_path / "train", photos)
    assert contents(tmp_path / "train") == undisturbed


KILLED = """
import os, signal, sys
from pathlib import Path
from care.data import blocks, partial_store, write_store
from care.data.readers import read_folder

partial_store.SECONDS_BETWEEN_SAVES, blocks.FEWEST_ROWS = 0.0, 1

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

for moment in ("begun", "reading", "journal", "complete"):
    if (child := os.fork()) == 0:
        source = read_folder(Path(sys.argv[1]), "train", 8)
        if moment == "complete":  # the last moment: everything is written, nothing is renamed
            partial_store.move_durably = kill
        if moment == "journal":
            whole, calls = partial_store.write_atomically, []
            partial_store.write_atomically = lambda *a: kill() if len(calls) == 9 else calls.append(whole(*a))
        when = {"begun": 0, "reading": 13}.get(moment, 99)
        tick = lambda read: kill() if read == when else None
        write_store(Path(sys.argv[2]) / moment / "train", "pets", "train", source, tick=tick, shard_bytes=1 << 16)
    print(moment, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_it_goes_on_after_a_kill(tmp_path, photos, undisturbed):
    command = [sys.executable, "-c", KILLED, photos, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert prepared_names(tmp_path) == ()
    moments = {"begun": None, "reading": 13, "journal": 9, "complete": FILES}
    assert done.stdout == "".join(f"{moment} {-signal.SIGKILL}\n" for moment in moments)
    for moment, after in moments.items():
        assert (prepared_splits(moment, tmp_path), len(list((tmp_path / moment).iterdir()))) == ((), 1)
        _, said = prepare(tmp_path / moment / "train", photos)
        assert [line.split(",")[0] for line in said[:1]] == (
            [f"goes on after {after} of {FILES} files"] if after else []
        )
        assert contents(tmp_path / moment / "train") == undisturbed


@pytest.mark.parametrize("change", ["side", "touched", "another"])
def test_it_starts_anew_and_says_so_if_the_files_or_settings_have_changed(tmp_path, photos, change):
    own = tmp_path / "photos"
    for file in photos.rglob("*.png"):
        (own / file.parent.name).mkdir(parents=True, exist_ok=True)
        (own / file.parent.name / file.name).write_bytes(file.read_bytes())
    with pytest.raises(Stopped):
        prepare(tmp_path / "train", own, tick=stopping(9))
    if change == "touched":
        os.utime(own / "a" / "2.png", (1, 1))
    if change == "another":
        save(own / "a" / "99.png", Image.new("RGB", (9, 9)))
    header, said = prepare(tmp_path / "train", own, side=SIDE + (change == "side"))
    assert said == ["starts anew, since the files or the settings have changed"]
    assert header.count == FILES - 3 + (change == "another")
    assert len(open_store(tmp_path / "train", verify=True)) == header.count


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("images-00000.bin", "flipped"),
        ("images-00000.bin", "cut"),
        ("labels.bin", "flipped"),
        ("labels.bin", "gone"),
        ("journal.json", "flipped"),
    ],
)
def test_what_was_written_and_is_damaged_is_read_again(tmp_path, photos, undisturbed, file, damage):
    with pytest.raises(Stopped):
        prepare(tmp_path / "train", photos, tick=stopping(9))
    (path,) = (tmp_path / ".partial-train").rglob(file)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            data[:3] + bytes([data[3] ^ 1]) + data[4:] if damage == "flipped" else data[: 9 * 3 * SIDE**2 - 1]
        )
    _, said = prepare(tmp_path / "train", photos)
    changed = {"flipped": 1, "cut": 1, "gone": 9}[damage]
    told = [f"goes on after 9 of {FILES} files, once their checksums are compared",
            f"{changed} of these have changed since they were written, and are read again"]  # fmt: skip
    assert said == ([] if file == "journal.json" else told)
    assert contents(tmp_path / "train") == undisturbed


def test_more_may_be_skipped_without_reading_again(tmp_path, photos, undisturbed):
    with pytest.raises(TooManyUnreadable, match=r"3 of 24 files .*--skip 3 .* goes on where this stopped$") as no:
        prepare(tmp_path / "train", photos, skip=2)
    assert no.value.file.read_text().splitlines() == no.value.skipped
    ticks = []
    prepare(tmp_path / "train", photos, skip=3, tick=ticks.append)
    assert ticks == [FILES]
    assert contents(tmp_path / "train") == undisturbed


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


def test_a_store_of_the_same_files_is_known(tmp_path, photos):
    source = read_folder(photos, "train", SIDE)
    assert not is_prepared(tmp_path / "train", source)
    prepare(tmp_path / "train", photos)
    assert is_prepared(tmp_path / "train", source)
    assert not is_prepared(tmp_path / "train", read_folder(photos, "train", SIDE + 1))
    assert not is_prepared(tmp_path / "train", read_folder(photos / "a", "train", SIDE))
    images = tmp_path / "train" / "images-00000.bin"
    images.write_bytes(b"\xfe" + images.read_bytes()[1:])
    assert is_prepared(tmp_path / "train", source)
    assert not is_prepared(tmp_path / "train", source, verify=True)
    images.write_bytes(images.read_bytes()[1:])
    assert not is_prepared(tmp_path / "train", source)


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
