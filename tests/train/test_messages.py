"""How many messages a step sends, and that nobody waits for a wish; of 2 processes and of 512, all but one imagined."""

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from care.data import load
from care.models.per_view import BatchNormPerView
from care.train import distributed
from care.train.distributed import Agreement, Processes
from care.train.state import build_state
from care.train.step import Step
from train.small import small_config, small_data

SENT = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast")


@pytest.fixture
def sent(monkeypatch):
    """The messages that are sent, by name and size of their result."""
    found = []

    def noted(name, real):
        def send(x, *args, **kwargs):
            found.append((name, x.numel()))
            return real(x, *args, **kwargs)

        return send

    for name in SENT:
        monkeypatch.setattr(dist, name, noted(name, getattr(dist, name)))
    return found


@pytest.fixture(params=[2, 512])
def world(request):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.param)
    yield request.param
    dist.destroy_process_group()


def test_a_step_sends_two_messages_per_batchnorm_and_two_for_embeddings(world, sent, tmp_path, monkeypatch):
    """And one that the loss is finite, since on a CPU a step changes nothing otherwise; the gradient's left out."""
    monkeypatch.setattr(distributed, "parallel", lambda objective, processes: objective)
    batch, (step, images) = 4 * world, _step(world, tmp_path)
    step([images], 0)
    sent.clear()
    step([images], 0)
    state = step.state
    layers = [module for module in state.objective.modules() if isinstance(module, BatchNormPerView)]
    sums = [("all_reduce", 2 * 4 * layer.num_features) for layer in layers]  # two sums of each of four views
    embeddings = [("all_gather_into_tensor", 2 * batch * 8), ("reduce_scatter_tensor", 2 * 4 * 8)]
    assert sorted(sent) == sorted([*sums, *sums, *embeddings, ("all_reduce", 1)])


def _step(world, folder, **chosen):
    """A step of the first of so many processes with four images each, and its images."""
    data = small_data(folder / "data")
    config = small_config(data, batch_size=4 * world, chunks=world, equivariance="care", care_weight=1.0, **chosen)
    samples, processes = load(data, "train"), Processes(0, world, torch.device("cpu"))
    return Step(build_state(config, samples, processes), config, processes, 10), samples.inputs[:4]


@pytest.mark.parametrize(("precision", "there"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_embeddings_travel_in_their_own_precision_and_their_gradients_in_fp32(precision, there, tmp_path, monkeypatch):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        monkeypatch.setattr(distributed, "parallel", lambda objective, processes: objective)
        gather, scatter, found = dist.all_gather_into_tensor, dist.reduce_scatter_tensor, []
        monkeypatch.setattr(dist, "all_gather_into_tensor", lambda out, x: (found.append(x.dtype), gather(out, x)))
        monkeypatch.setattr(dist, "reduce_scatter_tensor", lambda out, x: (found.append(x.dtype), scatter(out, x)))
        step, images = _step(2, tmp_path, precision=precision)
        step([images], 0)
    finally:
        dist.destroy_process_group()
    assert found == [there, torch.float32]


def test_a_wish_travels_every_fourth_step_and_is_granted_with_the_next_message(world, sent):
    agreed = Agreement(every=4)
    granted = [agreed(2) for _ in range(16)]  # it stays until it is granted, and after
    assert [step for step, value in enumerate(granted, 1) if value] == [8, 16]
    assert sent == 4 * [("all_reduce", 1)]


def test_a_message_is_waited_for_when_the_next_one_is_due(world, monkeypatch):
    waited = []

    class Message:
        def wait(self):
            waited.append(True)

    monkeypatch.setattr(dist, "all_reduce", lambda x, op, async_op: Message())
    agreed = Agreement(every=3)
    assert [len(waited) for _ in range(7) if agreed(0) == 0] == [0, 0, 0, 0, 0, 1, 1]


def test_without_other_processes_a_wish_is_granted_at_once():
    agreed = Agreement(every=4)
    assert [agreed(wish) for wish in (0, 1, 2)] == [0, 1, 2]
    assert not distributed.any_rank(False)
