"""A store of six pictures for the tests that read, write and cut it; pictures to prepare, and a store of them."""

import pytest
import torch
from PIL import Image

from care.data import blocks, write_store
from care.data.streamed.pictures import StreamedPictures
from data.by_hand import source_of
from data.cached import EVERYTHING, N, epoch
from data.on_disk import write_files
from data.preparing import FILES, contents, prepare
from data.reading import save


@pytest.fixture
def images(generator):
    return torch.randint(256, (6, 3, 4, 5), dtype=torch.uint8, generator=generator)


@pytest.fixture
def store(tmp_path, images):
    folder = tmp_path / "pets" / "train"
    write_store(folder, "pets", "train", source_of(images, [0, 1, 0, -1, 1, 0]))
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    """A block per file: what counts is in which blocks something happens."""
    monkeypatch.setattr(blocks, "FEWEST_ROWS", 1)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """24 pictures of two classes, three of them broken."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(FILES):
        save(folder / "ab"[i % 2] / f"{i}.png", Image.new("RGB", (9, 9), (i, 2 * i, 255 - i)))
    for i in (3, 4, 15):
        (folder / "ab"[i % 2] / f"{i}.png").write_bytes(b"broken")
    return folder


@pytest.fixture(scope="session")
def undisturbed(photos, tmp_path_factory):
    """The files of their store, prepared at once."""
    folder = tmp_path_factory.mktemp("whole") / "train"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "FEWEST_ROWS", 1)
        prepare(folder, photos)
    return contents(folder)


@pytest.fixture
def decoded(tmp_path, monkeypatch):
    """Which pictures were decoded since the last call, by whatever process."""
    file, decode_into = tmp_path / "decoded", StreamedPictures.decode_into

    def noted(self, row, index, whole):
        with file.open("a") as log:
            log.write(f"{index}\n")
        return decode_into(self, row, index, whole)

    def since():
        lines = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return sorted(map(int, lines))

    monkeypatch.setattr(StreamedPictures, "decode_into", noted)
    return since


@pytest.fixture
def photos_there(tmp_path, decoded):
    """(a folder of files, a cache that has all of them, what is right)"""
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    right = epoch(folder, cache)
    assert decoded() == EVERYTHING
    return folder, cache, right
