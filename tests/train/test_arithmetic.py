"""`deterministic`: the same seed gives the same bits on a GPU, stopped or not."""

import signal

import pytest
import torch

from care.train import Interrupted, Progress, prepare, train
from train.small import same_state, small_config, small_data
from train.watched import StopAfter

METHODS = {
    "care": {"equivariance": "care", "care_weight": 3.0},
    "moco": {"method": "mocov2", "queue": 32},
    "steering": {"equivariance": "steering", "care_weight": 3.0, "steering_weight": 1.0},
    "bf16": {"precision": "bf16"},
}


def test_what_torch_was_told_before_holds_again_afterwards(tmp_path):
    def told():
        return torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark

    before, seen = told(), []
    config = small_config(small_data(tmp_path / "data"), epochs=1, deterministic=True)
    job = prepare(config, tmp_path / "run")

    class Look(Progress):
        def step(self, *_):
            seen.append(told())

    train(job, Look())
    assert set(seen) == {(True, False)}
    assert told() == before


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_stopped_and_resumed_equals_never_stopped_on_a_gpu(method, graph, tmp_path):
    shared = {"epochs": 4, "device": "cuda", "precision": "fp32", "graph": graph, "deterministic": True}
    config = small_config(small_data(tmp_path / "data"), **{**shared, **METHODS[method]})
    for name in ("whole", "again"):
        train(prepare(config, tmp_path / name))
    assert same_state(tmp_path / "whole", tmp_path / "again")
    for steps, resume in ((5, False), (4, True)):
        with pytest.raises(Interrupted):
            train(prepare(config, tmp_path / "stopped", resume), StopAfter(steps, signal.SIGTERM))
    train(prepare(config, tmp_path / "stopped", resume=True))
    assert same_state(tmp_path / "whole", tmp_path / "stopped")
