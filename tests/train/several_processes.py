"""Run by a test: gradients of two processes against one, in float64, for everything that is registered, and of four."""

import copy
import functools

import torch
import torch.distributed as dist
from forked import together

from care.models import Encoder, split_batchnorm
from care.objective import total
from care.train import distributed
from objective.small import REGISTERED_ONCE, SMALLER, build, drawn, noise

BATCH = 8
ON_FEATURES = ("augself", "equimod", "essl", "duet", "stl", "looc")
CASES = {
    **REGISTERED_ONCE,
    "care alone": {"method": "none", "equivariance": "care"},
    "essl alone": {"method": "none", "equivariance": "essl"},
    "split queue": {"method": "mocov2", "equivariance": "split"},
    "told queue": {"method": "mocov2", "equivariance": "cassle"},
    "split prediction": {"method": "byol", "equivariance": "split"},
    "standardized embeddings": {"method": "mocov3", "head_last_batchnorm": True},
    "another form": {"method": "invariance", "equivariance": "care", "form": "minkowski"},
    "all views": {"method": "simclr", "equivariance": "split", "contrast": "all"},
    "in tiles": {"method": "simclr", "equivariance": "care", "tile": 3},
    "symmetric queue, shared views": {
        "method": "mocov2", "symmetric": True, "equivariance": "care", "equivariance_views": "shared",
    },
    "composed views, half of each chunk": {
        "equivariance": "split", "equivariance_views": "composed", "equivariance_policy": "hue_only", "chunks": 2,
        "equivariance_fraction": 0.5,
    },
}  # fmt: skip
OF_FOUR = ("in tiles", "vicreg", "split queue")


def built_once(build):
    """Most cases have the same encoder, which takes as long to build as its gradient."""
    made = functools.cache(build)

    def copied(*args, **settings):
        encoder = copy.deepcopy(made(*args, **settings))
        torch.manual_seed(1)  # for the weights that follow, whether it was built now or before
        return encoder

    return copied


Encoder.build = built_once(Encoder.build)


def gradients(objective, wrapped, views):
    total(wrapped(views)).backward()
    objective.after_step(torch.tensor(0.3, dtype=torch.float64))
    trained = {name: p.grad for name, p in objective.named_parameters() if p.requires_grad}
    assert None not in trained.values(), "a parameter without gradient, for which processes wait in the next step"
    return trained, objective.state_dict()


def floating(state):
    return {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}


def check_a_sum_of_gathered_views(processes):
    """∇ of Σ (x + y)², where the sum of two gathered tensors hands both the same gradient."""
    x, y = (torch.full((2, 3), value, dtype=torch.float64, requires_grad=True) for value in (1.0, 2.0))
    (distributed.all_gather(x) + distributed.all_gather(y)).square().sum().backward()
    expected = torch.full(
        (2, 3), 2 * (1.0 + 2.0) * processes.world_size, dtype=torch.float64
    )  # of every process's loss
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(y.grad, expected)


def check_a_sum_over_processes(processes):
    """∇ of Σ_r (r + 1) y², where y is the sum of every process's x: that of every process's loss."""
    x = torch.full((2,), processes.rank + 1.0, dtype=torch.float64, requires_grad=True)
    y = distributed.all_reduce(x)
    ((processes.rank + 1) * y.square()).sum().backward()
    whole = processes.world_size * (processes.world_size + 1) / 2
    torch.testing.assert_close(y.detach(), torch.full_like(x, whole))
    torch.testing.assert_close(x.grad, torch.full_like(x, 2 * whole * whole))


def check_a_wish(processes):
    """Of the last process alone, from the third step on: all grant it at one step, once, and not before."""
    agreed, last = distributed.Agreement(every=4), processes.world_size - 1
    granted, wished = [], 0
    for step in range(1, 25):
        wished = 2 if processes.rank == last and step >= 3 and not any(granted) else 0
        granted.append(agreed(wished))
    assert [step for step, value in enumerate(granted, 1) if value] == [8], granted
    assert granted[7] == 2


def check_half_precision(processes):
    """bf16 travels as it is. Its gradient is added up in fp32 and rounded once: in bf16, 1 + 2⁻⁸ + 2⁻⁸ + … is 1."""
    n = processes.world_size
    x = torch.full((1, n), 1.5, dtype=torch.bfloat16, requires_grad=True)
    of_all = distributed.all_gather(x)
    assert of_all.dtype == torch.bfloat16
    assert torch.equal(of_all, torch.full_like(of_all, 1.5))
    added = torch.full((n,), 2.0**-8)
    added[processes.rank] = 1.0  # so that in some coordinate, whoever begins, the large number comes first
    (of_all * added.bfloat16()).sum().backward()
    rounded_once = torch.tensor(1.0 + (n - 1) * 2.0**-8).bfloat16()
    assert torch.equal(x.grad, rounded_once.expand(1, n)), x.grad


def alone(images, settings):
    objective = build(**SMALLER | settings)
    return gradients(objective, objective, drawn(objective, images))


def check_that_a_head_without_a_loss_is_not_trained(processes):
    """Where the features alone have a loss. It is the same for all processes, so each tries a share."""
    for name in ON_FEATURES[processes.rank :: processes.world_size]:
        alone(noise(BATCH), {"method": "none", "equivariance": name})


def told(rank, mine, like):
    """The tensors of the process that has computed them, for all: names and shapes must be those of `like`."""
    names = [sorted(mine)] if mine else [None]
    dist.broadcast_object_list(names, rank)
    assert names[0] == sorted(like)
    whole = torch.cat([(mine or like)[name].detach().flatten() for name in names[0]])
    dist.broadcast(whole, rank)
    parts = whole.split([like[name].numel() for name in names[0]])
    return {name: part.view_as(like[name]) for name, part in zip(names[0], parts, strict=True)}


def check_gradients(processes, number, name, settings):
    """The processes take turns in being the one that computes what all are to find."""
    images, rows, turn = noise(BATCH), processes.rows(BATCH), number % processes.world_size
    expected, state = alone(images, settings) if processes.rank == turn else ({}, {})
    shared = build(processes=processes.world_size, **SMALLER | settings)
    shared.gather_by(distributed.all_gather, rows)
    split_batchnorm(shared, distributed.all_reduce, processes.world_size)
    mine = drawn(shared, images[rows], rows=rows)
    found, shared_state = gradients(shared, distributed.parallel(shared, processes), mine)
    expected, state = told(turn, expected, found), told(turn, floating(state), floating(shared_state))
    worst = max((found[key] - expected[key]).abs().max().item() for key in expected)
    drift = max((shared_state[key] - state[key]).abs().max().item() for key in state)
    if processes.is_rank_0:
        print(f"{processes.world_size} processes: {name} {worst:.2e} {drift:.2e}", flush=True)
    assert worst < 1e-10, (name, worst)
    assert drift < 1e-10, (name, drift)


def check(cases):
    processes = distributed.start("cpu")
    check_a_sum_of_gathered_views(processes)
    check_a_sum_over_processes(processes)
    check_a_wish(processes)
    check_half_precision(processes)
    check_that_a_head_without_a_loss_is_not_trained(processes)
    for number, (name, settings) in enumerate(cases.items()):
        check_gradients(processes, number, name, settings)


if __name__ == "__main__":
    together(2, check, CASES)
    together(4, check, {name: CASES[name] for name in OF_FOUR})
