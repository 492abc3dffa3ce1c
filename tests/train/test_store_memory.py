"""Training and evaluating on a store leave it on the disk, and in memory that the system shares between processes."""

import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from small import small_config

from care.augment import simclr
from care.bench.loader import own_memory
from care.data import batches, open_store, place, write_store
from care.data.readers import DataSource, Example
from care.evaluate.embedder import Embedder
from care.train import loop, prepare

ROWS, SIDE = 640, 256  # 126 MB in eight shards
MEGABYTES = ROWS * 3 * SIDE**2 / 1e6


@contextmanager
def watched():
    """By how much the process's own memory grows at most, in MB, looked at every few milliseconds."""
    found, ended, before = [0.0], threading.Event(), own_memory()

    def look():
        while not ended.wait(0.003):
            found[0] = max(found[0], own_memory() - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two splits of gray pictures, the first of them large."""
    folder = tmp_path_factory.mktemp("large")
    for split, count in (("train", ROWS), ("test", 20)):
        examples = (Example(np.full((3, SIDE, SIDE), row % 200, np.uint8), row % 2) for row in range(count))
        source = DataSource("made", ("even", "odd"), SIDE, SIDE, count, examples)
        write_store(folder / split, "gray", split, source, shard_bytes=16 << 20)
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_neither_training_nor_evaluating_copies_the_store(data, tmp_path):
    with watched() as copied:
        held = open_store(data / "train").stored.clone()
    assert copied[0] > 0.9 * MEGABYTES  # what a copy would be seen as
    del held
    with watched() as grown:
        job = prepare(small_config(str(data), epochs=2, batch_size=16), tmp_path / "run")
        job.lock.release()
        samples, seen = place(job.samples, "cpu"), 0
        for epoch in range(2):
            for batch in batches(samples, loop._indices(job, epoch, epoch * job.steps_per_epoch), "cpu"):
                seen += batch.amax((1, 2, 3)).sum().item()
    assert seen == 2 * sum(row % 200 for row in range(ROWS))
    assert grown[0] < MEGABYTES / 2
    policy, cpu = simclr(16), torch.device("cpu")
    embedder = Embedder(lambda inputs: {"mean": inputs.mean((2, 3))}, open_store(data / "train"), policy, "", cpu)
    with watched() as grown:
        found = embedder.clean()["mean"]
    assert torch.allclose(255 * found[:, 0], torch.arange(ROWS) % 200 * 1.0, atol=0.5)
    assert grown[0] < MEGABYTES / 2
