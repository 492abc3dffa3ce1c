"""A step that is replayed as a CUDA graph trains as one that is not."""

import pytest
import torch

from care.data import place
from care.train import prepare, train
from care.train.graph import CALLS_BEFORE_CAPTURE, Graph
from care.train.state import build_state
from care.train.step import Step
from objective.small import REGISTERED_ONCE
from train.graph_nodes import KERNEL, kinds_and_copies, reads_the_host
from train.small import same_state, small_config, small_data

pytestmark = pytest.mark.gpu

CASES = {
    **REGISTERED_ONCE,
    "half of each chunk": {"equivariance": "split", "chunks": 2, "equivariance_fraction": 0.5},
    "a teacher that is told": {"method": "byol", "equivariance": "cassle"},
    "composed views": {"equivariance": "split", "equivariance_views": "composed", "equivariance_policy": "hue_only"},
    "accumulated": {"equivariance": "care", "accumulate": 2, "optimizer": "muon"},
    "ema": {"ema": 0.9, "optimizer": "lars", "schedule": "cosine", "warmup_epochs": 1},
}


@pytest.mark.parametrize("name", CASES)
def test_a_captured_step_is_a_plain_one_in_all_tensors(name, tmp_path):
    """Twelve steps, three of them before the graph: every tensor of the last checkpoint, and the log, bit for bit.

    With algorithms that add in one order: otherwise two plain runs differ, too.
    """
    shared = {"epochs": 4, "device": "cuda", "precision": "fp32", "deterministic": True, "evaluate_every": 4}
    config = small_config(small_data(tmp_path / "data"), **shared, **CASES[name])
    for graph in (True, False):
        train(prepare(config.replace(graph=graph), tmp_path / str(graph)))
    assert same_state(tmp_path / "True", tmp_path / "False")


@pytest.fixture
def kept_graphs(monkeypatch):
    """Graphs stay, to be looked at, when what is replayed is made of them."""
    usual = torch.cuda.CUDAGraph
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: usual(keep_graph=True))


@pytest.mark.usefixtures("kept_graphs")
@pytest.mark.parametrize("name", ["accumulated", "ema", "half of each chunk", "mocov2"])
def test_a_captured_step_reads_nothing_from_the_host(name, tmp_path):
    """What is there when a graph is captured may be freed or hold something else when it is replayed."""
    case = {**CASES, "mocov2": {"method": "mocov2", "optimizer": "muon"}}[name]
    step, batch = step_to_capture(tmp_path, **case)
    step(batch, 0)
    kinds, copies = kinds_and_copies(step.graph.graph)
    assert kinds.count(KERNEL) > 100
    assert not any(map(reads_the_host, copies)), [(c.source.kind, c.bytes) for c in copies]


@pytest.mark.usefixtures("kept_graphs")
def test_a_copy_from_the_host_would_be_seen():
    there, here = torch.zeros(4, device="cuda"), torch.ones(4).pin_memory()
    graph = Graph(lambda _: there.copy_(here, non_blocking=True), [])
    for _ in range(CALLS_BEFORE_CAPTURE + 1):
        graph(torch.zeros(1, device="cuda"))
    assert [reads_the_host(copy) for copy in kinds_and_copies(graph.graph)[1]] == [True]


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


def test_no_step_makes_the_host_wait(tmp_path, no_waiting):
    step, batch = step_to_capture(tmp_path, equivariance="care", care_weight=1.0)
    step(batch, 0)
    with no_waiting():
        for _ in range(30):
            step(batch, 0)


def step_to_capture(tmp_path, **chosen):
    """A step that is captured at its next call, and the micro-batches for it."""
    config = small_config(small_data(tmp_path / "data"), device="cuda", epochs=20, **chosen)
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    step, inputs = Step(state, config, job.processes, job.steps_per_epoch), place(job.samples, "cuda").inputs
    batch = list(inputs[: config.batch_size].chunk(config.accumulate))
    for _ in range(CALLS_BEFORE_CAPTURE):
        step(batch, 0)
    return step, batch
