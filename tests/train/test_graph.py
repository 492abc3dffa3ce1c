"""A step that is replayed as a CUDA graph trains as one that is not."""

import dataclasses

import pytest
import torch

from care.train import prepare, train
from care.train.graph import CALLS_BEFORE_CAPTURE, Graph
from train.small import small_config, small_data

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

METHODS = {
    "care": {"equivariance": 1.0},
    "moco": {"method": "mocov2", "queue": 32},
    "byol": {"method": "byol", "equivariance": 1.0},
    "accumulated": {"equivariance": 1.0, "accumulate": 2, "chunks": 4},
    "turned": {"equivariance": 1.0, "turned": 4},
    "steering": {"equivariance": 1.0, "steering": 1.0, "steering_rank": 6},
    "average": {"ema": 0.9, "optimizer": "lars", "schedule": "cosine", "warmup_epochs": 1},
}


@needs_gpu
@pytest.mark.parametrize("method", METHODS)
def test_the_losses_of_a_captured_run_are_those_of_a_plain_one(method, tmp_path, monkeypatch):
    """Twelve steps, three of them before the graph: other random numbers, rates or weights would show at once.

    cuDNN may choose other algorithms in each run. Full precision and an optimizer whose steps are not signs keep what
    that changes small.
    """
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    shared = {"epochs": 4, "device": "cuda", "precision": "fp32", "optimizer": "sgd", "learning_rate": 0.03}
    config = small_config(small_data(tmp_path / "data"), **shared)
    config = dataclasses.replace(config, **METHODS[method])
    logs = []
    for graph in (True, False):
        plan = prepare(dataclasses.replace(config, graph=graph), tmp_path / str(graph))
        train(plan)
        logs.append([record["loss"] for record in plan.run.log()])
    assert logs[0] == pytest.approx(logs[1], rel=2e-3)


@needs_gpu
def test_captured_generators_follow_their_seeds():
    generator, seen = torch.Generator("cuda"), torch.zeros(4, device="cuda")

    def draw(scale):
        seen.copy_(scale * torch.rand(4, generator=generator, device="cuda"))

    graph = Graph(draw, [generator])
    for call in range(2 * CALLS_BEFORE_CAPTURE):
        generator.manual_seed(call)
        graph(torch.full((), float(call), device="cuda"))
        expected = call * torch.rand(4, generator=torch.Generator("cuda").manual_seed(call), device="cuda")
        assert torch.equal(seen, expected)
    assert graph.graph is not None


@needs_gpu
def test_no_step_makes_the_host_wait(tmp_path, no_waiting):
    from care.data import place
    from care.train.state import build_state
    from care.train.step import Step

    config = small_config(small_data(tmp_path / "data"), device="cuda", equivariance=1.0, epochs=20)
    plan = prepare(config, tmp_path / "run")
    state = build_state(config, plan.samples, plan.processes)
    step, inputs = Step(state, config, plan.processes, plan.steps_per_epoch), place(plan.samples, "cuda").inputs
    for _ in range(CALLS_BEFORE_CAPTURE + 1):
        step([inputs[:16]], 0)
    with no_waiting():
        for _ in range(30):
            step([inputs[:16]], 0)
