"""A store of six pictures for the tests that read, write and cut it."""

import pytest
import torch

from care.data import write_store
from data.by_hand import source_of


@pytest.fixture
def images(generator):
    return torch.randint(256, (6, 3, 4, 5), dtype=torch.uint8, generator=generator)


@pytest.fixture
def store(tmp_path, images):
    folder = tmp_path / "pets" / "train"
    write_store(folder, "pets", "train", source_of(images, [0, 1, 0, -1, 1, 0]))
    return folder
