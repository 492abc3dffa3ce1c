"""Run by torchrun in a test: gradients of two processes against one, in float64, for everything that is registered."""

import sys

import torch
import torch.distributed as dist

from care.models import split_batchnorm
from care.objective import total
from care.train import distributed
from objective.small import REGISTERED_ONCE, build, drawn, noise

BATCH = 8
CASES = {
    **REGISTERED_ONCE,
    "care alone": {"method": "none", "equivariance": "care"},
    "split queue": {"method": "mocov2", "equivariance": "split"},
    "split prediction": {"method": "byol", "equivariance": "split"},
    "another form": {"method": "invariance", "equivariance": "care", "form": "minkowski"},
    "all views": {"method": "simclr", "equivariance": "split", "contrast": "all"},
    "symmetric queue": {"method": "mocov2", "symmetric": True},
    "half of each chunk": {"equivariance": "split", "chunks": 2, "equivariance_fraction": 0.5},
    "shared views": {"method": "mocov2", "equivariance": "care", "equivariance_views": "shared"},
}


def gradients(objective, wrapped, views):
    total(wrapped(views)).backward()
    objective.after_step(torch.tensor(0.3, dtype=torch.float64))
    return {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}, objective.state_dict()


def check_a_sum_of_gathered_views(processes):
    """∇ of Σ (x + y)², where the sum of two gathered tensors hands both the same gradient."""
    x, y = (torch.full((2, 3), value, dtype=torch.float64, requires_grad=True) for value in (1.0, 2.0))
    (distributed.all_gather(x) + distributed.all_gather(y)).square().sum().backward()
    expected = torch.full(
        (2, 3), 2 * (1.0 + 2.0) * processes.world_size, dtype=torch.float64
    )  # of every process's loss
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(y.grad, expected)


def main():
    processes = distributed.start("cpu")
    check_a_sum_of_gathered_views(processes)
    images, rows = noise(BATCH), processes.rows(BATCH)
    for name, settings in CASES.items():
        alone = build(**settings)
        expected, state = gradients(alone, alone, drawn(alone, images))
        shared = build(processes=2, **settings)
        shared.gather_by(distributed.all_gather, rows)
        split_batchnorm(shared, distributed.all_reduce, processes.world_size)
        mine = drawn(shared, images[rows], rows=rows)
        found, shared_state = gradients(shared, distributed.parallel(shared, processes), mine)
        worst = max((found[key] - expected[key]).abs().max().item() for key in expected)
        buffers = [key for key in state if state[key].is_floating_point()]
        drift = max((shared_state[key] - state[key]).abs().max().item() for key in buffers)
        assert found.keys() == expected.keys()
        if processes.is_rank_0:
            print(f"{name} {worst:.2e} {drift:.2e}", flush=True)
        assert worst < 1e-10, (name, worst)
        assert drift < 1e-10, (name, drift)
    dist.barrier()


if __name__ == "__main__":
    sys.exit(main())
