"""Data sets by name."""

import hashlib
import http.server
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from care.data import generate_chains, load, write_store
from care.data.catalogue import DATA_SETS, GENERATED_SPLITS, Published
from care.data.readers import DataSource, Example
from care.data.readers.download import Download, fetch
from care.data.registry import (
    data_root,
    heldout_split,
    known_splits,
    prepared_names,
    prepared_splits,
    read,
    store_folder,
)


def prepare(root, name, split, level=5):
    source = DataSource("by hand", ("a",), 2, 2, 1, iter([Example(np.full((3, 2, 2), level, np.uint8), 0)]))
    write_store(store_folder(name, split, root), name, split, source)


@pytest.mark.usefixtures("all_generated_samples")
def test_chains_are_generated():
    test, expected = load("chains", "test"), generate_chains(4_000, seed=2)
    assert torch.equal(test.inputs, expected.points)
    assert torch.equal(test.labels, expected.labels)
    assert (test.input_shape, len(test.classes)) == ((64,), 10)
    assert GENERATED_SPLITS["train"] == (20_000, 1)


def test_shapes_are_generated(monkeypatch):
    """With few of them: drawing all takes a while."""
    monkeypatch.setattr("care.data.registry.GENERATED_SPLITS", {"train": (20, 1), "test": (10, 2)})
    train, test = load("shapes"), load("shapes", "test")
    assert (len(train), len(test), train.input_shape, train.inputs.dtype) == (20, 10, (32, 32), torch.uint8)
    assert {"hue", "angle"} <= set(train.factors)
    assert not torch.equal(train.inputs[:10], test.inputs)


def test_of_the_first_few_no_others_are_generated(monkeypatch):
    """Where they do not depend on how many there are: chains do."""
    monkeypatch.setattr("care.data.registry.GENERATED_SPLITS", {"train": (20, 1), "test": (10, 2)})
    few, all_of_them = load("shapes", first=5), load("shapes")
    assert torch.equal(few.inputs, all_of_them.inputs[:5])
    assert torch.equal(few.factors["hue"], all_of_them.factors["hue"][:5])
    assert [len(load(name, first=first)) for name, first in (("shapes", 50), ("chains", 5))] == [20, 20]


def test_stores_by_name_and_by_path(tmp_path):
    prepare(tmp_path, "cifar10", "train", level=1)
    prepare(tmp_path, "cifar10", "test", level=2)
    prepare(tmp_path, "my.photos-2", "val", level=3)
    loaded = {
        1: [load("cifar10", root=tmp_path)],
        2: [
            load("cifar10", "test", tmp_path),
            load(tmp_path / "cifar10" / "test"),
            load(f"{tmp_path}/cifar10", "test"),
        ],
        3: [load("my.photos-2", "val", root=tmp_path)],
    }
    for level, found in loaded.items():
        assert [samples.inputs[0, 0, 0, 0].item() for samples in found] == [level] * len(found)
    assert prepared_names(tmp_path) == ("cifar10", "my.photos-2")
    assert prepared_splits("cifar10", tmp_path) == ("test", "train")


def test_stores_are_looked_for_without_listing_the_folders_of_classes(monkeypatch, tmp_path):
    """Each may hold a thousand pictures, and each is asked for several times."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    prepare(tmp_path, "photos", "train")
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(Path(path)), scandir(path))[1])
    assert prepared_splits("photos", tmp_path) == ("train",)
    assert listed == [tmp_path / "photos"]


def test_what_may_not_be_read_is_no_store_and_does_not_hide_the_others(monkeypatch, tmp_path):
    prepare(tmp_path, "mine", "train")
    prepare(tmp_path, "theirs", "train")
    scandir = os.scandir

    def denied(path):
        if Path(path).name == "theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert prepared_names(tmp_path) == ("mine",)


def test_a_folder_of_pictures_alone_is_opened_without_a_path_for_each(monkeypatch, tmp_path):
    """Of a million they take a minute to make and to sort."""
    for name in ("a.jpg", "b.jpg", "c.png"):
        (tmp_path / name).touch()
    listed = []
    monkeypatch.setattr(Path, "iterdir", lambda folder: listed.append(folder))
    assert (known_splits(tmp_path), len(load(tmp_path))) == (("train",), 3)
    assert listed == []


def test_the_root(monkeypatch, tmp_path):
    monkeypatch.delenv("CARE_DATA", raising=False)
    assert data_root() == Path.home() / ".cache" / "care"
    monkeypatch.setenv("CARE_DATA", str(tmp_path))
    assert data_root() == tmp_path
    prepare(None, "cifar10", "train")
    assert len(load("cifar10")) == 1
    assert data_root(Path("there")) == Path("there")


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("cifar10", "train", "run care data prepare cifar10 --from FOLDER --root ROOT, or with --download"),
        ("flowers102", "val", "run care data prepare flowers102 --from FOLDER --root ROOT$"),
        ("imagenet100", "val", "run care data prepare imagenet100 --from FOLDER --root ROOT$"),
        ("mine", "val", "mine has no split 'val' in ROOT: run care data prepare mine --from FOLDER"),
        ("cifar10", "val", "cifar10 has no split 'val', only train, test$"),
        ("chains", "val", "chains has no split 'val', only train, test$"),
        ("cifar-10", "train", "no data set is called 'cifar-10': choose one of chains, cifar10, .*, mine, shapes"),
        ("..", "train", "'..' is not a valid name"),
        ("mine", "../mine/train", "is not a valid name"),
        ("", "train", "'' is not a valid name"),
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(tmp_path, name, split, message):
    prepare(tmp_path, "mine", "train")
    with pytest.raises(ValueError, match=message.replace("ROOT", re.escape(str(tmp_path)))):
        load(name, split, root=tmp_path)


def test_a_path_that_is_no_store(tmp_path):
    with pytest.raises(
        ValueError, match="nowhere is not a folder: expected the folder of a store, of pictures or of shards"
    ):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no folders of classes and no pictures"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "split", "size", "message"),
    [
        ("chains", "train", None, "chains is generated"),
        ("cifar10", "val", None, "cifar10 has no split 'val'"),
        ("cifar10", "train", 64, "all have the same size"),
        ("cifar10", "train", None, "there does not exist"),
        ("imagenet100", "train", None, "there is not a folder"),
    ],
)
def test_reading_what_cannot_be_read(tmp_path, name, split, size, message):
    with pytest.raises(ValueError, match=message):
        read(name, tmp_path / "there", split, size)


@pytest.fixture
def server():
    """A server on this machine that knows one file, `/archive.tar.gz`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/archive.tar.gz" else 404)
            self.end_headers()
            self.wfile.write(b"content")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_downloads_are_checked(server, tmp_path):
    url, done = f"{server}/archive.tar.gz", []
    file = fetch(Download(url, hashlib.md5(b"content").hexdigest()), tmp_path, done.append)
    assert (file.name, file.read_bytes(), done[-1]) == ("archive.tar.gz", b"content", 7)
    with pytest.raises(ValueError, match=r"archive\.tar\.gz is not the expected file: its MD5 is 9a0364b9e99bb480"):
        fetch(Download(url, "0" * 32), tmp_path)
    with pytest.raises(ValueError, match=r"other\.gz cannot be downloaded \(HTTP Error 404"):
        fetch(Download(f"{server}/other.gz", "0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be downloaded \(.*\); without a network, copy the file here"):
        fetch(Download("http://127.0.0.1:9/archive.tar.gz", "0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_downloads_come_from_universities_and_have_checksums():
    downloads = [known.download for known in DATA_SETS.values() if isinstance(known, Published) and known.download]
    assert len(downloads) == 3
    for download in downloads:
        assert re.match(r"https?://[\w.]+\.(toronto|stanford)\.edu/", download.url)
        assert re.fullmatch("[0-9a-f]{32}", download.md5)


def test_the_split_to_measure_on(tmp_path):
    assert heldout_split("shapes") == "test"
    assert heldout_split("flowers102") == "test"
    for split in ("train", "val"):
        (tmp_path / "pets" / split).mkdir(parents=True)
        (tmp_path / "pets" / split / "store.json").write_text("{}")
    assert heldout_split(tmp_path / "pets") == "val"
    assert heldout_split("pets", root=tmp_path) == "val"
    (tmp_path / "pets" / "val" / "store.json").unlink()
    with pytest.raises(ValueError, match="`validation` N"):
        heldout_split("pets", root=tmp_path)
