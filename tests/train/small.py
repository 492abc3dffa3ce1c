"""A small run: 48 pictures, a small network, a second or two."""

import os
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from care.data import write_store
from care.data.readers import DataSource, Example
from care.train import Config
from care.train.recipes import applicable

SETTINGS = {
    "model": "small_resnet", "size": 8, "epochs": 3, "batch_size": 16, "embedding_dim": 8, "head_width": 16,
    "chunks": 4, "queue": 32, "equivariant_dim": 3, "steering_rank": 6, "device": "cpu", "learning_rate": 1e-2,
    "evaluate_every": 1,
}  # fmt: skip


def small_data(folder, n=48, pixels=12):
    """A data set of noise with a color per class, as stores under `folder`; returns what --data takes."""
    for split, count in (("train", n), ("test", 20)):
        generator = np.random.default_rng(len(split))
        pictures = generator.integers(0, 256, (count, 3, pixels, pixels), dtype=np.uint8)
        labels = [i % 2 for i in range(count)]
        for picture, label in zip(pictures, labels, strict=True):
            picture[label] = 255
        examples = iter([Example(picture, label) for picture, label in zip(pictures, labels, strict=True)])
        write_store(
            folder / split, "noise", split, DataSource("made", ("red", "green"), pixels, pixels, count, examples)
        )
    return str(folder)


def small_config(data, **settings):
    return Config.of(**{"data": data, **applicable(SETTINGS, settings), **settings})


@contextmanager
def mounted(folder, megabytes):
    """A file system of this size, in memory; the test is skipped where none may be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def tensors_of(folder):
    """Every tensor of a run's final state: the weights, and all of the last checkpoint."""
    from safetensors.torch import load_file

    last = max((folder / "checkpoints").iterdir())
    return load_file(folder / "model.safetensors") | load_file(last / "tensors.safetensors")


def same_state(a, b):
    """Whether two runs ended bit-identical: weights, checkpoint and log."""
    left, right = tensors_of(a), tensors_of(b)
    logs = [(folder / "log.jsonl").read_bytes() for folder in (a, b)]
    return logs[0] == logs[1] and left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)
