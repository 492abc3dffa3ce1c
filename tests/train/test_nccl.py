"""NCCL in a group of one process: what several do, messages and all, as a CUDA graph and without waiting."""

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from care.data import place
from care.train import Run, prepare, train
from care.train.state import build_state
from care.train.step import Step
from train.small import same_state, small_config, small_data

pytestmark = pytest.mark.gpu
SHARED = {"epochs": 8, "device": "cuda", "precision": "fp32", "deterministic": True, "evaluate_every": 8}
SHARED |= {"equivariance": "care", "care_weight": 1.0, "optimizer": "sgd", "learning_rate": 1e-5}


@pytest.fixture
def group():
    dist.init_process_group("cpu:gloo,cuda:nccl", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_captured_step_with_messages_is_a_plain_one_in_all_tensors(group, accumulate, tmp_path):
    """24 steps, eleven of them before the graph; and the loss is that of a process without a group."""
    config = small_config(small_data(tmp_path / "data"), accumulate=accumulate, **SHARED)
    for graph in (True, False):
        train(prepare(config.replace(graph=graph), tmp_path / str(graph)))
    assert same_state(tmp_path / "True", tmp_path / "False")


def test_a_group_of_one_trains_as_no_group(tmp_path, request):
    config = small_config(small_data(tmp_path / "data"), **SHARED)
    train(prepare(config, tmp_path / "alone"))
    request.getfixturevalue("group")
    train(prepare(config, tmp_path / "group"))
    losses = [[record["loss"] for record in Run(tmp_path / name).log()] for name in ("alone", "group")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)  # the order of additions on a GPU is not fixed


@pytest.mark.parametrize("graph", [True, False])
def test_no_step_makes_the_host_wait_for_messages(group, graph, tmp_path, no_waiting):
    """BatchNorm's sums, gathered embeddings, averaged gradients, and the question whether the loss is finite."""
    config = small_config(
        small_data(tmp_path / "data"), device="cuda", equivariance="care", care_weight=1.0, epochs=40, graph=graph
    )
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    step, inputs = Step(state, config, job.processes, job.steps_per_epoch), place(job.samples, "cuda").inputs
    assert (step.graph is not None) == graph
    for _ in range(step.graph.few + 1 if step.graph else 12):
        step([inputs[:16]], 0)
    with no_waiting():
        for _ in range(30):
            step([inputs[:16]], 0)
