"""Which pictures have a color, in stores and in files."""

import numpy as np
import pytest
import torch
from PIL import Image

from care.data import Samples, load
from care.data.gray import all_gray
from data.on_disk import WRITERS

LEVELS = np.random.default_rng(0).integers(0, 256, (20, 24), dtype=np.uint8)
GRAY = {
    "L.png": Image.fromarray(LEVELS),
    "RGB.png": Image.fromarray(np.stack(3 * [LEVELS], -1)),
    "RGB.jpg": Image.fromarray(np.stack(3 * [LEVELS], -1)),
    "L.jpg": Image.fromarray(LEVELS),
    "LA.png": Image.fromarray(LEVELS).convert("LA"),
    "1.png": Image.fromarray(LEVELS).convert("1"),
    "16.png": Image.fromarray(LEVELS.astype(np.uint16) * 256),
    "P.png": Image.fromarray(LEVELS).convert("P"),
}


def folder_of(folder, pictures):
    (folder / "train").mkdir(parents=True)
    for name, picture in pictures.items():
        picture.save(folder / "train" / name)
    return folder


@pytest.mark.parametrize("name", GRAY)
def test_gray_files_of_any_kind_are_gray_until_there_is_one_color(name, tmp_path):
    assert all_gray(load(folder_of(tmp_path / "gray", {name: GRAY[name]})))
    teal = {name: GRAY[name], "teal.jpg": Image.new("RGB", (300, 200), "teal")}
    assert not all_gray(load(folder_of(tmp_path / "colored", teal)))


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind in ("files", "tars")])
def test_a_stripe_of_color_is_a_color(kind, tmp_path):
    assert not all_gray(load(WRITERS[kind](tmp_path / "photos", 6)))


def test_what_cannot_be_read_is_not_called_gray(tmp_path):
    folder = folder_of(tmp_path / "photos", {"0.png": GRAY["L.png"]})
    samples = load(folder)
    (folder / "train" / "0.png").write_bytes(b"")
    assert not all_gray(samples)


@pytest.mark.parametrize("colored", [None, 0, 7, 199])
def test_of_few_samples_in_memory_every_one_is_seen(colored):
    images = torch.randint(256, (200, 1, 4, 4), dtype=torch.uint8).repeat(1, 3, 1, 1)
    samples = Samples(images, torch.full((200,), -1), ())
    if colored is not None:
        images[colored, 1] = 255 - images[colored, 0]
    assert all_gray(samples.subset(torch.arange(0, 200, 4))) == (colored != 0)
    assert all_gray(samples) == (colored not in (0, 199))  # 64 of them, the first and the last included
    assert not all_gray(load("chains", "test"))
