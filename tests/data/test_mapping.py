"""Files that are one array in memory, and are not copied into it: by one process or by many."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from care.data import batches, open_store, write_store
from care.data.mapping import UNIT, map_files
from care.data.readers import DataSource, Example

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ROWS, SIDE, SHARD = 512, 128, 4 << 20  # 25 MB in 6 shards and a rest
BYTES = ROWS * 3 * SIDE**2


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mapped") / "train"
    examples = (Example(np.full((3, SIDE, SIDE), row % 251, np.uint8), -1) for row in range(ROWS))
    write_store(folder, "levels", "train", DataSource("", (), SIDE, SIDE, ROWS, examples), shard_bytes=SHARD)
    return folder


@pytest.mark.parametrize("sizes", [[5], [UNIT, 7], [UNIT, 3 * UNIT, UNIT, UNIT + 1]])
def test_the_bytes_are_those_of_the_files(tmp_path, sizes):
    data = [np.random.default_rng(i).integers(256, size=size, dtype=np.uint8) for i, size in enumerate(sizes)]
    files = [tmp_path / str(i) for i in range(len(sizes))]
    for file, numbers in zip(files, data, strict=True):
        file.write_bytes(numbers.tobytes())
    mapped = map_files(files)
    assert np.array_equal(mapped, np.concatenate(data))
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1


def mappings(name):
    """(kilobytes in use, kilobytes that are this process's own) of all mappings of files with this name."""
    found, inside = [0, 0], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        key, *words = line.split()
        if "-" in key:
            inside = name in line
        elif inside and key in ("Rss:", "Anonymous:"):
            found[key == "Anonymous:"] += int(words[0])
    return found


def test_a_mapping_ends_with_its_array(store):
    samples = open_store(store)
    some = samples.stored[3:5]
    del samples
    assert some[:, 0, 0, 0].tolist() == [3, 4]
    assert mappings(f"{store}/images-")[0] > 0
    del some
    assert mappings(f"{store}/images-") == [0, 0]


def own_memory():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


def look_at_all(store):
    """Every row in random batches, which are right; what the process has of the images, and of its own (kB)."""
    samples, before = open_store(store), own_memory()
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(os.getpid())).split(16)
    for rows, batch in zip(order, batches(samples, order, "cpu"), strict=True):
        assert torch.equal(batch[:, 0, 0, 0], (rows % 251).byte())
        assert torch.equal(batch[:, 2, -1, -1], (rows % 251).byte())
    return *mappings(f"{store}/images-"), own_memory() - before


def test_processes_share_a_store_and_none_copies_it(store):
    """Each has looked at all of the images, has mapped them, and has none of their bytes for itself."""
    children = []
    for _ in range(3):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                os.write(writing, " ".join(map(str, look_at_all(store))).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        children.append((child, reading))
    for child, reading in children:
        with os.fdopen(reading) as pipe:
            there, own, grown = map(int, pipe.read().split())
        assert os.waitpid(child, 0)[1] == 0
        assert there == BYTES // 1024
        assert own == 0
        assert grown < there / 4
