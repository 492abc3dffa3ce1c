"""`care train` on a GPU: each way to train, stopped and resumed, resident and streamed."""

import os
import signal
from importlib import import_module

import pytest

from care.train import Config
from care.train.step import Step
from gpu.commands import CARE, SMALL, check_run, run
from train.small import same_state

pytestmark = pytest.mark.gpu

WAYS = {
    "SimCLR": (),
    "CARE": CARE,
    "keep hue": ("--keep", "hue", "--chunks", 4),
    "MoCo-v2 and CARE": (*CARE, "--method", "mocov2", "--queue", 64),
    "steering": ("--equivariance", "steering", "--chunks", 4, "--steering-rank", 8),
    "BYOL, accumulated": ("--method", "byol", "--accumulate", 2, "--optimizer", "muon"),
    "fp16": ("--precision", "fp16"),
    "without a graph": (*CARE, "--no-graph"),
    "moving average": ("--ema", 0.9, "--optimizer", "lars", "--schedule", "cosine", "--warmup-epochs", 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_trains(way, gpu, photos, tmp_path):
    run(gpu, "train", "--data", photos, *SMALL, *WAYS[way], "--out", tmp_path / "run")
    assert [record["step"] for record in check_run(tmp_path / "run", gpu)] == [10, 20]


@pytest.mark.parametrize("size", [64, 72])
def test_larger_views(size, gpu, photos, tmp_path):
    """Views of 64 px are made by one kernel, larger ones in strips."""
    run(gpu, "train", "--data", photos, *SMALL, *CARE, "--size", size, "--out", tmp_path / "run")
    check_run(tmp_path / "run", gpu)


@pytest.mark.parametrize(("data", "model"), [("shapes", "small_resnet"), ("chains", "deepset")])
def test_generated_data(data, model, gpu, tmp_path):
    sizes = (*SMALL, "--model", model, "--limit", 160)
    run(gpu, "train", "--data", data, *sizes, *CARE, "--out", tmp_path / "run")
    check_run(tmp_path / "run", gpu)


@pytest.fixture(scope="module")
def command(photos):
    return ("train", "--data", photos, *SMALL, *CARE, "--deterministic")


@pytest.fixture(scope="module")
def whole(gpu, command, tmp_path_factory):
    """A deterministic run, from its start to its end."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(gpu, *command, "--out", folder)
    return folder


def test_the_same_seed_gives_the_same_bits(whole, gpu, command, tmp_path):
    run(gpu, *command, "--out", tmp_path / "run")
    assert same_state(whole, tmp_path / "run")


@pytest.fixture
def signals():
    """A command that was stopped ignores signals from then on, because its process ends: this one does not."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt_after(steps, monkeypatch):
    """Ctrl-C within the last of so many steps."""
    plain, calls = Step.__call__, []

    def step(self, *inputs, **more):
        plain(self, *inputs, **more)
        calls.append(None)
        if len(calls) == steps:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Step, "__call__", step)


@pytest.mark.usefixtures("signals")
def test_resumed_it_ends_in_the_same_bits(whole, gpu, command, tmp_path, monkeypatch):
    """Stopped in the middle of the first epoch, and again in the middle of the second."""
    folder = tmp_path / "run"
    for steps in (4, 9):
        with monkeypatch.context() as patch:
            interrupt_after(steps, patch)
            assert "goes on" in run(gpu, *command, "--out", folder, "--resume", code=75)
        assert not (folder / "model.safetensors").exists()
    assert "resumed after step 13" in run(gpu, *command, "--out", folder, "--resume")
    assert same_state(whole, folder)


def test_streamed_is_as_resident(whole, gpu, command, tmp_path, monkeypatch):
    """As if the images were too many for the GPU: the host gathers every batch, and every bit is the same."""
    module, streams = import_module("care.data.batches"), []
    stream = module._stream
    monkeypatch.setattr(module, "RESIDENT_SHARE", 0.0)
    monkeypatch.setattr(module, "_stream", lambda *a: (streams.append(a), stream(*a))[1])
    run(gpu, *command, "--out", tmp_path / "run")
    assert len(streams) >= (2 if gpu == "cuda" else 0)
    assert same_state(whole, tmp_path / "run")


def test_auto_is_the_gpu(gpu, photos, tmp_path):
    if gpu == "cpu":
        pytest.skip("needs a GPU")
    run("auto", "train", "--data", photos, *SMALL, "--epochs", 1, "--out", tmp_path / "run")
    assert Config.read(tmp_path / "run" / "config.toml").device == "auto"
