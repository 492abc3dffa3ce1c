"""Commands as a user calls them, on the GPU and at the smallest sizes, and what they leave behind."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import torch
from typer.testing import CliRunner

import care
from care.cli import app
from care.train import Config

# A small network and small batches: ten steps an epoch of the photos.
SMALL = (
    "--model", "test_resnet", "--size", 32, "--batch-size", 16, "--epochs", 2, "--embedding-dim", 16,
    "--head-width", 32,
)  # fmt: skip
CARE = ("--equivariance", "care", "--care-weight", 3, "--chunks", 4)
QUICK = ("--images", 40, "--augmentations", 2)
TINY = ("--model", "test_resnet", "--batch-size", 16, "--seconds", 0.05, "--images", 64, "--processes", 1)
# No user's settings, no colors, and care from where it is imported here.
ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "200", "PYTHONPATH": str(Path(care.__file__).parents[1])}


def invoke(*words, code=0):
    """Call a command in this process; returns all that it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], env=ENVIRONMENT, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def run(device, *words, code=0):
    """The same with `--device`; on a GPU, the command must have taken memory there."""
    if device == "cpu":
        return invoke(*words, "--device", "cpu", code=code)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    output = invoke(*words, "--device", device, code=code)
    assert torch.cuda.max_memory_allocated() > before
    return output


def start(*words, **options):
    """Start a command in a process of its own, without the shape checks, which cannot be compiled."""
    command = [sys.executable, "-m", "care", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, **pipes, **options)


def alone(*words, **options):
    """Run a command in a process of its own; returns what it printed on both streams."""
    with start(*words, **options) as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    return out, err


def check_run(folder, device):
    """A finished run: its files, its device, and a log of finite numbers, which is returned."""
    for name in ("model.safetensors", "config.toml", "curves.png", "speed.jsonl"):
        assert (folder / name).stat().st_size > 0
    assert Config.read(folder / "config.toml").device == device
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert log
    assert all(math.isfinite(value) for record in log for value in record.values() if value is not None)
    return log


def _numbers(record):
    """Every number of a record, at any depth."""
    if isinstance(record, dict | list):
        values = record.values() if isinstance(record, dict) else record
        return [number for value in values for number in _numbers(value)]
    return [record] if isinstance(record, float) else []


def check_record(file):
    """The record in a file of JSON, after a look at whether all numbers are finite."""
    record = json.loads(file.read_text())
    assert _numbers(record)
    assert all(math.isfinite(number) for number in _numbers(record))
    return record
