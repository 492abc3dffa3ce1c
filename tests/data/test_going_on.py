"""Preparing that is stopped, anywhere, and goes on: the store is the same to the last byte."""

import os

import pytest
from PIL import Image

from care.data import open_store, partial_store
from care.data.blocks import StoreFiles
from care.data.partial_store import PartialStore
from care.data.store_writer import TooManyUnreadable
from data.preparing import FILES, SIDE, Stopped, contents, prepare, stopping
from data.reading import save

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.mark.parametrize("after", [0, 1, 12, FILES])
def test_it_goes_on_where_it_was_stopped(tmp_path, photos, undisturbed, after):
    with pytest.raises(Stopped):
        prepare(tmp_path / "train", photos, tick=stopping(after))
    assert not (tmp_path / "train").exists()
    ticks = []
    _, said = prepare(tmp_path / "train", photos, tick=ticks.append, workers=1)
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
    prepare(tmp_path / "train", photos, workers=1)
    assert contents(tmp_path / "train") == undisturbed


@pytest.mark.parametrize("change", ["side", "touched", "another"])
def test_it_starts_anew_and_says_so_if_the_files_or_settings_have_changed(tmp_path, photos, change):
    own = tmp_path / "photos"
    for file in photos.rglob("*.png"):
        (own / file.parent.name).mkdir(parents=True, exist_ok=True)
        (own / file.parent.name / file.name).write_bytes(file.read_bytes())
    with pytest.raises(Stopped):
        prepare(tmp_path / "train", own, tick=stopping(9), workers=1)
    if change == "touched":
        os.utime(own / "a" / "2.png", (1, 1))
    if change == "another":
        save(own / "a" / "99.png", Image.new("RGB", (9, 9)))
    header, said = prepare(tmp_path / "train", own, side=SIDE + (change == "side"), workers=1)
    assert said == ["starts over, because the files or the settings have changed"]
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
        prepare(tmp_path / "train", photos, tick=stopping(9), workers=1)
    (path,) = (tmp_path / ".partial-train").rglob(file)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            data[:3] + bytes([data[3] ^ 1]) + data[4:] if damage == "flipped" else data[: 9 * 3 * SIDE**2 - 1]
        )
    _, said = prepare(tmp_path / "train", photos, workers=1)
    changed = {"flipped": 1, "cut": 1, "gone": 9}[damage]
    told = [f"goes on after 9 of {FILES} files, once their checksums are compared",
            f"{changed} of these have changed since they were written, and are read again"]  # fmt: skip
    assert said == ([] if file == "journal.json" else told)
    assert contents(tmp_path / "train") == undisturbed


def test_more_may_be_skipped_without_reading_again(tmp_path, photos, undisturbed):
    with pytest.raises(TooManyUnreadable, match=r"3 of 24 files .*`skip` 3 .* goes on where this stopped$") as no:
        prepare(tmp_path / "train", photos, skip=2)
    assert no.value.file.read_text().splitlines() == no.value.skipped
    ticks = []
    prepare(tmp_path / "train", photos, skip=3, tick=ticks.append)
    assert ticks == [FILES]
    assert contents(tmp_path / "train") == undisturbed
