"""Caches that are damaged, shared, full or gone: what is trained on is the same, and a user is told."""

import errno
import os
import shutil
import warnings
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from cached import EVERYTHING, ROW, SIDE, N, epoch, only
from on_disk import write_files

from care.data import batches
from care.data.streamed import cache as caching
from care.data.streamed.opening import open_pictures

# Processes are forked, and the test process has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize("kind", ["rows", "records"])
def test_a_flipped_bit_is_noticed(kind, photos_there, decoded):
    _, cache, right = photos_there
    data = bytearray(only(cache, kind).read_bytes())
    data[7 * len(data) // N + 5] ^= 4
    only(cache, kind).write_bytes(data)
    assert torch.equal(epoch(photos_there[0], cache), right)
    assert decoded() == [7]
    epoch(photos_there[0], cache)
    assert decoded() == []


@pytest.mark.parametrize("kind", ["rows", "records"])
def test_files_that_are_cut_off_or_gone_are_filled_again(kind, photos_there, decoded):
    folder, cache, right = photos_there
    size = only(cache, kind).stat().st_size
    os.truncate(only(cache, kind), 10 * size // N + 3)
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING[10:]
    only(cache, kind).unlink()
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING
    shutil.rmtree(cache)
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING


def test_a_record_without_its_row_does_not_count(photos_there, decoded):
    """As after a power cut: the record came to the disk, and the row did not."""
    folder, cache, right = photos_there
    with only(cache, "rows").open("r+b") as file:
        file.seek(4 * ROW)
        file.write(bytes(ROW))
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == [4]


def test_several_trainings_fill_it_at_once(tmp_path, decoded):
    """Six processes that write the same rows, each training in an order of its own."""
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    right = epoch(folder)
    opened = [open_pictures(folder, "train", SIDE, workers=2, cache=cache) for _ in range(3)]
    orders = [torch.arange(N), torch.arange(N), torch.arange(N).flip(0)]
    streams = [
        batches(samples, order.repeat(3).split(2), "cpu", whole=True)
        for samples, order in zip(opened, orders, strict=True)
    ]
    found = [torch.cat(parts) for parts in zip(*zip(*streams, strict=True), strict=True)]
    assert all(torch.equal(rows, right[order.repeat(3)]) for rows, order in zip(found, orders, strict=True))
    assert len(decoded()) > N  # some were decoded by two of them
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == []


def test_a_disk_is_not_filled(tmp_path, decoded, monkeypatch):
    """As on a disk of 100,000 bytes, of which 10,000 stay free, and on which there is room for five rows."""
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    right = epoch(folder)
    decoded()

    def usage(of):
        kept = sum(any(record) for record in records_in(cache))
        return Usage(100_000, kept * ROW, 10_000 + 5 * ROW + 20 - kept * ROW)

    monkeypatch.setattr(caching, "disk_usage", usage)
    sizes = r"[5-6] of 22 pictures are kept, all would take 0\.0 GB, and 0\.0 are free"
    said = rf"cache stopped \(a tenth of its disk stays free\): {sizes}"
    for expected in (N, N - 5):
        with pytest.warns(UserWarning, match=said) as told:
            assert torch.equal(epoch(folder, cache, workers=2), right)
        assert len(told) == 1
        assert expected - 1 <= len(decoded()) <= expected  # two processes may find the room for the last one


def records_in(cache):
    data = only(cache, "records").read_bytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]


@pytest.mark.parametrize("how", ["raises", "writes less"])
def test_a_disk_that_is_full_ends_keeping_and_not_the_training(how, tmp_path, decoded, monkeypatch):
    folder, cache, pwrite = write_files(tmp_path / "photos", N), tmp_path / "cache", os.pwrite
    right = epoch(folder)

    def full(file, data, place):
        if place >= 12 * ROW and how == "raises":
            raise OSError(errno.EDQUOT, "over quota")
        return pwrite(file, data[:100] if place >= 12 * ROW else data, place)

    monkeypatch.setattr(os, "pwrite", full)
    reason = os.strerror(errno.EDQUOT if how == "raises" else errno.ENOSPC)
    with pytest.warns(UserWarning, match=rf"cache stopped \({reason}\): ") as told:
        assert torch.equal(epoch(folder, cache, workers=2), right)
    assert len(told) == 1
    monkeypatch.undo()
    assert torch.equal(epoch(folder, cache), right)


def test_a_cache_that_cannot_be_read_is_decoded(photos_there, decoded, monkeypatch):
    folder, cache, right = photos_there

    def broken(*_):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING


def test_a_cache_that_is_removed_while_it_is_used_takes_no_more(tmp_path, decoded):
    """What is in it is still read, since the files are open."""
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    samples = open_pictures(folder, "train", SIDE, workers=2, cache=cache)
    order = torch.arange(N).split(10)
    first = torch.cat(list(batches(samples, order[:1], "cpu")))
    shutil.rmtree(cache)
    with pytest.warns(UserWarning, match=r"cache stopped \(No such file or directory\): 10 of 22") as told:
        found = torch.cat(list(batches(samples, order, "cpu")))
    assert len(told) == 1
    assert torch.equal(found[:10], first)
    assert torch.equal(found, samples.inputs)
    assert not cache.exists()


def test_a_cache_of_another_user_is_read(photos_there, decoded, monkeypatch):
    folder, cache, _ = photos_there
    open_file = os.open

    def refuse(file, flags, *mode, **how):
        if flags & os.O_RDWR and Path(file).parent == cache and Path(file).suffix:
            raise PermissionError(errno.EACCES, "not allowed")
        return open_file(file, flags, *mode, **how)

    monkeypatch.setattr(os, "open", refuse)
    epoch(folder, cache)
    assert decoded() == []
    (folder / "train" / "cat" / "000.png").touch()
    with pytest.warns(UserWarning, match=r"cache stopped \(its files are another user's\): 22 of 22"):
        epoch(folder, cache)
    assert decoded() == [0]


def test_a_picture_that_cannot_be_read_is_told_of_at_every_run(tmp_path, decoded):
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    broken = folder / "train" / "cat" / "006.png"
    broken.write_bytes(b"\xff\xd8\xff broken")
    with warnings.catch_warnings(action="ignore"):
        right = epoch(folder)
    decoded()
    for expected in (N, 1):
        with pytest.warns(UserWarning, match=r"006.png cannot be read .*: another picture takes its place") as told:
            found = epoch(folder, cache)
        assert len(told) == 1
        assert len(decoded()) == expected
        assert torch.equal(right, found)


def test_a_picture_that_is_gone_is_told_of(photos_there, decoded):
    """It is in the cache, and no longer in the folder."""
    folder, cache, _ = photos_there
    samples = open_pictures(folder, "train", SIDE, workers=2, cache=cache)
    samples.stored.opened_cache(whole=True)
    (folder / "train" / "cat" / "008.png").unlink()
    with pytest.warns(UserWarning, match=r"008.png cannot be read .* missing"):
        list(batches(samples, [torch.arange(N)], "cpu", whole=True))
    assert decoded() == [4]
