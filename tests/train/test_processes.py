"""Two real processes against one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small import small_config, small_data

from care.train import Run, prepare, train

HERE = Path(__file__).parent


def torchrun(*command, cwd):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*start, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_averaged_gradient_is_that_of_one_process(tmp_path):
    """For every method, in float64: parameters to 1e-10, and BatchNorm's running statistics too."""
    assert "vicreg" in torchrun(str(HERE / "two_processes.py"), cwd=tmp_path)


def test_a_run_on_two_processes_is_the_run_on_one(tmp_path):
    """The same images, augmentations, weights and log, up to the order of additions."""
    data = small_data(tmp_path / "data")
    config = small_config(data, equivariance=3.0, epochs=2, optimizer="sgd", learning_rate=0.05)
    train(prepare(config, tmp_path / "one"))
    (tmp_path / "config.toml").write_text(config.to_toml())
    torchrun("-m", "care", "train", "--config", "config.toml", "--out", "two", cwd=tmp_path)
    ones, twos = Run(tmp_path / "one").log(), Run(tmp_path / "two").log()
    assert len(ones) == len(twos) == 2
    for one, two in zip(ones, twos, strict=True):
        for name in ("loss", "siamese", "equivariance", "invariance", "positive_cosine"):
            assert two[name] == pytest.approx(one[name], rel=1e-3), name
    assert (tmp_path / "two" / "curves.png").exists()
    assert len(json.loads((tmp_path / "two" / "speed.jsonl").read_text().splitlines()[0])) == 3
