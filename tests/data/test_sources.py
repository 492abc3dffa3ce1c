"""Which pictures there are in files, tar shards and tables, in what order, and what is told where there are none."""

import contextlib
import shutil
import tarfile

import pytest
import torch
from on_disk import (
    WRITERS,
    add_member,
    encoded,
    number_of,
    write_files,
    write_tars,
)

import care.data
from care.data.readers import read_folder
from care.data.registry import heldout_split, is_streamed, known_splits
from care.data.samples import SHARDS_AT_ONCE
from care.data.streamed import files, indexes, opening, tars
from care.data.streamed.encoded import Names
from care.data.streamed.files import open_files
from care.data.streamed.opening import open_pictures
from care.randomness import epoch_order, sharded_order

N, SIDE = 22, 8
# Processes are forked, and the test process has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.parametrize("kind", WRITERS)
def test_an_epoch_visits_every_picture_once_and_few_shards_at_a_time(kind, tmp_path):
    samples = open_pictures(WRITERS[kind](tmp_path / "photos", N), "train", SIDE)
    first, again, second = (samples.order(7, epoch) for epoch in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(second)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(N))


def test_shards_are_shuffled_together_some_at_a_time():
    shards = torch.arange(20).repeat_interleave(50)[torch.randperm(1000)]
    order = sharded_order(shards, 3, 5, SHARDS_AT_ONCE)
    assert sorted(order.tolist()) == list(range(1000))
    turns = [set(part.tolist()) for part in shards[order].split(50 * SHARDS_AT_ONCE)]
    assert [len(turn) for turn in turns] == [8, 8, 4]
    assert not (turns[0] & turns[1])
    within = shards[order][:400]
    assert (within[1:] == within[:-1]).float().mean() < 0.25  # an eighth by chance
    assert turns != [set(part.tolist()) for part in shards[sharded_order(shards, 3, 6, SHARDS_AT_ONCE)].split(400)]


def test_files_are_visited_in_the_order_of_a_store(tmp_path):
    samples = open_pictures(write_files(tmp_path, 12), "train", SIDE)
    assert samples.order(1, 2).equal(epoch_order(12, 1, 2))


def test_a_folder_is_searched_once_where_it_is_asked_to(tmp_path, monkeypatch):
    """And within the context that a search is to have, which nothing else is."""
    folder, events = write_files(tmp_path, 12), []
    monkeypatch.setattr(opening, "open_files", lambda *what: events.append("search") or open_files(*what))

    @contextlib.contextmanager
    def searching(where):
        events.append(where)
        yield
        events.append("done")

    with opening.opened_once(searching):
        sizes = [open_pictures(folder, "train", side).input_shape for side in (8, 16)]
        assert events == [folder, "search", "done"]
        assert opening.streamed_splits(folder) == ("train",)
        assert events[3:] == [folder, "done"]
    assert sizes == [(8, 8), (16, 16)]
    open_pictures(folder)
    assert events[5:] == ["search"]  # files may have come since


def test_names_labels_and_some_sizes_tell_files_from_others(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SIZES", 4)  # of 12: the first, the last, and two between them
    folder = write_files(tmp_path, 12)
    first, paths = open_files(folder, "train"), [open_files(folder, "train").read(row) for row in range(12)]
    assert open_files(folder, "train").digest() == first.digest()
    with paths[5].open("ab") as file:
        file.write(b"more")
    assert open_files(folder, "train").digest() == first.digest()
    with paths[-1].open("ab") as file:
        file.write(b"more")
    changed = open_files(folder, "train").digest()
    assert changed != first.digest()
    paths[5].rename(paths[5].with_name("renamed.png"))
    assert open_files(folder, "train").digest() not in (first.digest(), changed)


def test_load_finds_splits_and_prefers_a_store(tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    for kind, write in WRITERS.items():
        folder = tmp_path / kind
        write(folder, 8)
        write(folder, 4, split="test")
        assert is_streamed(folder)
        assert known_splits(folder) == ("train", "test")
        assert heldout_split(folder) == "test"
        assert [len(care.data.load(str(folder), split)) for split in ("train", "test")] == [8, 4]
        assert care.data.load(folder, pixels=12).input_shape == (12, 12)
        with pytest.raises(ValueError, match="has no split 'val', only train, test"):
            care.data.load(folder, "val")
    assert not is_streamed("shapes")
    assert not is_streamed(tmp_path / "nothing")


def test_shards_without_a_split_are_all_for_training(tmp_path):
    folder = write_tars(tmp_path / "a", 6, split="2024")
    assert known_splits(folder) == ("train",)
    assert len(open_pictures(folder, "train", SIDE)) == 6
    shutil.copy(next(folder.glob("*.tar")), folder / "more.parquet")
    with pytest.raises(ValueError, match=r"shards of several kinds, \.parquet, \.tar: keep one kind"):
        open_pictures(folder, "train", SIDE)


def test_shards_that_somebody_wants_to_prepare_are_told(tmp_path):
    with pytest.raises(ValueError, match=r"holds shards, which need not be prepared: care train --data .*/a/"):
        read_folder(write_tars(tmp_path / "a", 6), "train", SIDE)


def test_the_index_of_archives_is_kept_until_they_change(tmp_path, monkeypatch):
    folder, kept = write_tars(tmp_path / "a", 6, shards=2), tmp_path / "indexes"
    first = open_pictures(folder, "train", SIDE, indexes=kept)
    found = []
    monkeypatch.setattr(indexes, "write_atomically", lambda *_: found.append(1))
    assert open_pictures(folder, "train", SIDE, indexes=kept).digest() == first.digest()
    assert found == []
    with tarfile.open(sorted(folder.glob("*.tar"))[0], "a") as archive:
        add_member(archive, "new.png", encoded(9))
    assert len(open_pictures(folder, "train", SIDE, indexes=kept)) == 7
    assert found == [1]
    monkeypatch.undo()
    (index,) = kept.glob("*.npz")
    index.write_bytes(index.read_bytes()[:100])
    write_tars(folder, 6, shards=2)
    assert open_pictures(folder, "train", SIDE, indexes=kept).digest() == first.digest()


def test_archives_without_pictures_or_cut_off_are_told(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        add_member(archive, "a.txt", b"no picture")
    with pytest.raises(ValueError, match="hold no pictures"):
        open_pictures(tmp_path, "train", SIDE)
    (tmp_path / "a.tar").write_bytes(b"x" * 2000)
    with pytest.raises(ValueError, match=r"a\.tar cannot be read as a tar archive of pictures"):
        open_pictures(tmp_path, "train", SIDE)


def test_an_archive_that_is_cut_between_two_members_is_named(tmp_path):
    """What is left reads as a shorter archive: only the blocks of zeros at its end are missing."""
    folder = write_tars(tmp_path, 6, shards=2)
    *_, last = sorted(folder.glob("*.tar"))
    with tarfile.open(last) as archive:
        cut = archive.getmembers()[3].offset
    whole = last.read_bytes()
    for end in (cut, len(whole.rstrip(b"\0")) // 512 * 512 + 512):  # after one picture, and after all of them
        last.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=rf"{last.name} cannot be read as a tar .*: it is truncated, .* copy"):
            open_pictures(folder, "train", SIDE)
    last.write_bytes(whole)
    assert len(open_pictures(folder, "train", SIDE)) == 6


def test_many_archives_are_read_by_processes_as_few_are_here(tmp_path, monkeypatch):
    folder = write_tars(tmp_path, 20, shards=10)
    together = open_pictures(folder, "train", SIDE).digest()
    *_, last = sorted(folder.glob("*.tar"))
    last.write_bytes(last.read_bytes()[:512])
    with pytest.raises(ValueError, match=rf"{last.name} cannot be read as a tar archive of pictures"):
        open_pictures(folder, "train", SIDE)
    monkeypatch.setattr(tars, "MANY_ARCHIVES", 100)
    assert open_pictures(write_tars(tmp_path, 20, shards=10), "train", SIDE).digest() == together


def test_members_of_folders_with_dots_keep_their_labels(tmp_path):
    """The key ends at the first dot of the file's name, not of its folder's."""
    samples = open_pictures(write_tars(tmp_path, 4, shards=1), "train", SIDE)
    assert samples.stored.encoded.labels.tolist() == [0, 1, 0, 1]


def test_names_are_kept_as_they_are():
    names = ["a/ü.jpg", "", "b/\udcff.png", "c" * 300]
    kept = Names.of(names)
    assert [kept[i] for i in range(len(kept))] == names


def test_pictures_beside_folders_are_told_of(tmp_path):
    folder = write_files(tmp_path, 6)
    (folder / "train" / "x.png").write_bytes(encoded(7))
    with pytest.warns(UserWarning, match=r"beside the folders of classes \(cat, dog\): 1 picture"):
        assert len(open_pictures(folder, "train", SIDE)) == 6
    for i in range(6):
        (folder / "train" / f"{i}.png").write_bytes(encoded(7))
    with pytest.raises(ValueError, match=r"7 pictures are beside its folders \(cat, dog\), which have 6"):
        open_pictures(folder, "train", SIDE)


def test_a_sample_of_an_archive_is_one_picture(tmp_path):
    """Masks are no pictures to train on; of `v1.0.png`, nothing but its name is odd."""
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for name, number in {"0001.seg.png": 5, "0001.png": 1, "0002.png": 2, "v1.0.png": 3, "v1.1.png": 4}.items():
            add_member(archive, name, encoded(number))
    samples = open_pictures(tmp_path, "train", SIDE)
    assert sorted(number_of(samples.inputs)) == [1, 2, 3, 4]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("text", ["cat", "", "1.5"])
def test_a_label_in_an_archive_that_is_no_number_is_told_with_its_member(text, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        add_member(archive, "7.cls", text.encode())
    with pytest.raises(
        ValueError, match=rf"^\S+a\.tar: the label in 7\.cls is '{text}': write the number of its class"
    ):
        open_pictures(tmp_path, "train", SIDE)
