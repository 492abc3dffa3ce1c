"""Pictures of every kind, and files that are none, in a folder per class."""

import io
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

import care
from care.data.readers import Example, Unreadable, folder_splits, read_folder
from data.on_disk import WRITERS
from data.reading import collected, save


def test_a_folder_per_class(tmp_path):
    for path, level in {"train/b/1.png": 1, "train/a/2.png": 2, "train/a/1/x.png": 3, "val/b/1.png": 4}.items():
        save(tmp_path / path, Image.new("RGB", (9, 8), (level, 0, 0)))
    (tmp_path / "train" / "a" / ".hidden").write_text("no picture")
    (tmp_path / "train" / "readme.txt").write_text("not in the folder of a class")
    assert folder_splits(tmp_path) == ("train", "val")
    source = read_folder(tmp_path, "train", 4)
    assert (source.classes, source.expected) == (("a", "b"), 3)
    images, labels = collected(source)
    assert sorted(zip(images[:, 0, 0, 0].tolist(), labels, strict=True)) == [(1, 1), (2, 0), (3, 0)]
    assert collected(read_folder(tmp_path, "val", 4))[1] == [1]
    assert folder_splits(tmp_path / "train") == ("train",)  # flat: FOLDER/CLASS
    assert sorted(collected(read_folder(tmp_path / "train", "train", 4))[1]) == [0, 0, 1]


@pytest.mark.parametrize("where", ["", "train/"])
def test_pictures_without_classes(tmp_path, where):
    for i in range(3):
        save(tmp_path / f"{where}{i}.png", Image.new("RGB", (9, 8), (i, 0, 0)))
    (tmp_path / where / ".hidden").mkdir()
    (tmp_path / where / ".DS_Store").write_text("no picture")
    source = read_folder(tmp_path, "train", 4)
    assert (source.classes, source.expected) == ((), 3)
    images, labels = collected(source)
    assert (sorted(images[:, 0, 0, 0].tolist()), labels) == ([0, 1, 2], [-1] * 3)


def test_pictures_beside_folders_are_never_left_out_in_silence(tmp_path):
    """A folder of a phone: `edited` is hardly a class. As many as in classes are a note."""
    for i in range(4):
        save(tmp_path / f"{i}.png", Image.new("RGB", (9, 8)))
    for i in range(3):
        save(tmp_path / f"edited/{i}.png", Image.new("RGB", (9, 8)))
    with pytest.raises(
        ValueError, match=r"4 pictures are beside its folders \(edited\), which have 3. Folders are classes"
    ):
        read_folder(tmp_path, "train", 4)
    (tmp_path / "3.png").unlink()
    (tmp_path / "._0.png").write_bytes(b"not listed")
    source = read_folder(tmp_path, "train", 4)
    assert source.expected == 3
    assert source.notes[0].startswith("ignored, since they are beside the folders of classes (edited): 3 pictures")


def test_a_split_without_classes_beside_one_with_them(tmp_path):
    for name in ("train/1.png", "val/2.png", "test/a/3.png"):
        save(tmp_path / name, Image.new("RGB", (9, 8)))
    assert collected(read_folder(tmp_path, "val", 4))[1] == [-1]
    with pytest.raises(ValueError, match="test/a: the training pictures have no such class"):
        read_folder(tmp_path, "test", 4)
    save(tmp_path / "train/a/1.png", Image.new("RGB", (9, 8)))
    with pytest.raises(ValueError, match=r"val has no folders of classes: .* FOLDER/val/CLASS/"):
        read_folder(tmp_path, "val", 4)


def test_folders_that_are_something_else(tmp_path):
    with pytest.raises(ValueError, match="has no folders of classes and no pictures: "):
        read_folder(tmp_path, "train", 4)
    save(tmp_path / "train/a/1.png", Image.new("RGB", (9, 8)))
    with pytest.raises(ValueError, match="has no split 'val', only train"):
        read_folder(tmp_path, "val", 4)
    (tmp_path / "val" / "b").mkdir(parents=True)
    with pytest.raises(ValueError, match="val/b: the training pictures have no such class"):
        read_folder(tmp_path, "val", 4)
    with pytest.raises(ValueError, match="pixels must be from 1 to 4096, got 5000"):
        list(read_folder(tmp_path, "train", 5000).examples)
    with pytest.raises(ValueError, match="is not a folder"):
        folder_splits(tmp_path / "missing")


RED = (200, 10, 10)


def broken_files():
    jpg, png, pcx = (io.BytesIO() for _ in range(3))
    noise = Image.fromarray(np.random.default_rng(0).integers(256, size=(40, 40, 3), dtype=np.uint8))
    noise.save(jpg, "JPEG")
    noise.save(png, "PNG")
    noise.save(pcx, "PCX")  # Pillow could read it

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def claim(width, height):
        size = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + size + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")

    flipped = bytearray(png.getvalue())
    flipped[60] ^= 255
    return {
        "empty.jpg": b"",
        "text.jpg": b"hello",
        "truncated.jpg": jpg.getvalue()[:-400],
        "header.jpg": jpg.getvalue()[:20],
        "truncated.png": png.getvalue()[: len(png.getvalue()) // 2],
        "flipped.png": bytes(flipped),
        "bomb.png": claim(60_000, 60_000),
        "rare.png": pcx.getvalue(),
    }


BROKEN_FILES = broken_files()


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_files_are_told_by_name(tmp_path, name):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_bytes(BROKEN_FILES[name])
    save(tmp_path / "a" / "z.png", Image.new("RGB", (9, 9), RED))
    filters = list(warnings.filters)
    bad, good = sorted(read_folder(tmp_path, "train", 8).examples, key=lambda found: isinstance(found, Example))
    assert isinstance(bad, Unreadable)
    assert isinstance(good, Example)
    assert bad.file == str(tmp_path / "a" / name)
    assert bad.reason.startswith("cannot be read as a picture")
    assert "\n" not in bad.reason
    assert warnings.filters == filters


def test_links_to_nothing_are_told_by_name(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").symlink_to(tmp_path / "missing.png")
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert bad.reason == "cannot be read as a picture (OSError: it is missing or not a plain file)"


def test_pictures_go_with_their_labels_and_the_first_of_them_are_of_all_classes(tmp_path):
    for i in range(600):
        save(tmp_path / f"{'abc'[i // 200]}/{i:03d}.png", Image.new("RGB", (1, 1), (i % 200, 0, i // 200)))
    images, labels = collected(read_folder(tmp_path, "train", 1))
    assert images[:, 2, 0, 0].tolist() == labels
    assert sorted((label, i) for label, i in zip(labels, images[:, 0, 0, 0].tolist(), strict=True)) == [
        (label, i) for label in range(3) for i in range(200)
    ]
    assert all(20 <= labels[:100].count(label) <= 47 for label in range(3))  # 33, give or take three deviations
    assert collected(read_folder(tmp_path, "train", 1))[1] == labels


def test_a_text_that_unpacks_to_too_much_is_told_by_name(tmp_path):
    """A bomb beside the pixels: a comment of 100 MB that compresses well."""
    comment = PngImagePlugin.PngInfo()
    comment.add_text("note", "x" * 100_000_000, zip=True)
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9)), pnginfo=comment)
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert isinstance(bad, Unreadable)
    assert bad.file.endswith("1.png")


def loop_of_links(path):
    path.symlink_to(path.name)


def pipe(path):
    os.mkfifo(path)


def folder_of_that_name(path):
    path.mkdir()
    save(path / "inside.png", Image.new("RGB", (9, 9), RED))


@pytest.mark.parametrize("make", [loop_of_links, pipe])
def test_what_is_no_plain_file_is_told_by_name_and_not_waited_for(tmp_path, make):
    (tmp_path / "a").mkdir()
    make(tmp_path / "a" / "1.jpg")
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert (bad.file, "not a plain file" in bad.reason) == (str(tmp_path / "a" / "1.jpg"), True)


def test_a_folder_called_like_a_picture_is_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    folder_of_that_name(tmp_path / "a" / "x.jpg")
    images, _ = collected(read_folder(tmp_path, "train", 8))
    assert images.shape == (1, 3, 8, 8)


def test_a_link_to_the_folder_above_is_not_followed_for_ever(tmp_path):
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9), RED))
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert read_folder(tmp_path, "train", 8).expected == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told_by_name(tmp_path):
    save(tmp_path / "a" / "1.png", Image.new("RGB", (9, 9), RED))
    (tmp_path / "a" / "1.png").chmod(0)
    (bad,) = read_folder(tmp_path, "train", 8).examples
    assert "PermissionError" in bad.reason


def test_files_that_are_no_pictures_are_ignored_and_counted(tmp_path):
    for name in ("a/1.JPG", "a/ü/2.png", "b/3.webp"):
        save(tmp_path / name, Image.new("RGB", (9, 8)))
    save(tmp_path / "b" / "4", Image.new("RGB", (9, 8)), format="JPEG")  # by its first bytes
    save(tmp_path / "b" / "img.0005", Image.new("RGB", (9, 8)), format="PNG")
    for name in ("a/Thumbs.db", "a/labels.csv", "b/more.CSV", "a/._1.JPG", "b/README", "b/.DS_Store", "a/@eaDir/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no picture")
    (tmp_path / "__MACOSX" / "a").mkdir(parents=True)
    source = read_folder(tmp_path, "train", 4)
    assert (source.expected, source.classes) == (5, ("a", "b"))
    assert sorted(collected(source)[1]) == [0, 0, 1, 1, 1]
    assert source.notes == (
        "ignored, since neither their names nor their first bytes are those of pictures: "
        "2 .csv, 2 hidden, 1 .db, 1 without an ending",
    )


@pytest.mark.parametrize(
    ("folders", "splits"),
    [
        (("train", "valid"), ("train", "val")),
        (("Train", "Validation", "TEST"), ("train", "val", "test")),
        (("training", "dev", "testing"), ("train", "val", "test")),
        (("valid", "dog"), ("train",)),  # without train/, these are classes
    ],
)
def test_the_usual_names_of_splits(tmp_path, folders, splits):
    for i, name in enumerate(folders):
        save(tmp_path / name / "cat" / "1.png", Image.new("L", (4, 4), i))
    assert folder_splits(tmp_path) == splits
    for i, split in enumerate(splits if len(splits) > 1 else ()):
        source = read_folder(tmp_path, split, 4)
        assert (source.classes, source.notes, collected(source)[0].max()) == (("cat",), (), i)


def test_two_folders_for_one_split_are_refused(tmp_path):
    for name in ("train", "val", "valid"):
        save(tmp_path / name / "1.png", Image.new("L", (4, 4)))
    with pytest.raises(ValueError, match="has val and valid, which would both be the split val: rename one"):
        folder_splits(tmp_path)


def test_other_folders_beside_splits_are_told(tmp_path):
    for name in ("train/cat/1.png", "extra/cat/1.png", "masks/1.png"):
        save(tmp_path / name, Image.new("L", (4, 4)))
    (note,) = read_folder(tmp_path, "train", 4).notes
    assert note.startswith("ignored, since folders of splits are called train, training, val, valid, validation, dev,")
    assert note.endswith(f": extra, masks in {tmp_path}")


def test_classes_inside_other_folders_are_told(tmp_path):
    """A folder of the same name in every class holds none."""
    for name in ("pets/cat/1.png", "pets/dog/1.png", "birds/owl/1.png"):
        save(tmp_path / name, Image.new("L", (4, 4)))
    source = read_folder(tmp_path, "train", 4)
    said = f"classes are the folders in {tmp_path} (birds, pets), not those inside (cat, dog, owl)"
    assert (source.classes, source.notes) == (("birds", "pets"), (said,))
    for name in ("cat/images/1.png", "dog/images/1.png"):
        save(tmp_path / "tiny" / "train" / name, Image.new("L", (4, 4)))
    assert read_folder(tmp_path / "tiny", "train", 4).notes == ()


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / "a" / "x"))

    save(tmp_path / "a" / "1.png", Image.new("L", (4, 4)))
    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(PermissionError, match="a/x"):
        read_folder(tmp_path, "train", 4)


@pytest.mark.parametrize("kind", ["tars", "parquet", "arrow"])
def test_shards_need_not_be_prepared(kind, tmp_path):
    """Those of the Hugging Face hub are in folders, which are not classes."""
    folder = WRITERS[kind](tmp_path / "pq", 6)
    said = r"holds shards, which need not be prepared: care train --data \S+/ reads them"
    with pytest.raises(ValueError, match=said):
        read_folder(folder, "train", 4)
    with pytest.raises(ValueError, match=said):
        care.pretrain(folder, out=tmp_path / "run")
