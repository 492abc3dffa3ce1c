"""Run by torchrun in a test: gradients of two processes against one, in float64, for every method."""

import sys

import torch
import torch.distributed as dist

from care.methods import MethodSettings, build_encoder, build_method
from care.models import split_batchnorm
from care.train import distributed

BATCH = 8
CASES = {
    "simclr": {"method": "simclr"},
    "care": {"method": "simclr", "equivariance": 2.0},
    "turned": {"method": "simclr", "equivariance": 2.0, "turned": 4},
    "steered": {"method": "simclr", "equivariance": 2.0, "steering": 1.5, "steering_rank": 6},
    "mocov2": {"method": "mocov2", "equivariance": 1.0, "turned": 3},
    "barlow_twins": {"method": "barlow_twins"},
    "vicreg": {"method": "vicreg", "equivariance": 1.0},
    "byol": {"method": "byol", "equivariance": 1.0, "turned": 3},
    "simsiam": {"method": "simsiam"},
    "uniformity": {"method": "uniformity", "equivariance": 1.0},
    "invariance": {"method": "invariance", "equivariance": 1.0, "form": "minkowski"},
    "equivariance": {"method": "equivariance", "equivariance": 1.0},
}


def build(settings, processes):
    torch.manual_seed(0)
    chosen = MethodSettings(model="test_resnet", embedding=8, head_width=16, chunks=4, queue=16, **settings)
    return build_method(chosen, build_encoder(chosen, (32, 32)).double(), BATCH, processes).double()


def gradients(method, wrapped, images):
    method.loss.total(wrapped(*images)).backward()
    method.after_step(0.9)
    return {name: p.grad for name, p in method.named_parameters() if p.grad is not None}, method.state_dict()


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
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(4, BATCH, 3, 32, 32, generator=generator, dtype=torch.float64)
    for name, settings in CASES.items():
        alone = build(settings, 1)
        views = len(alone.plan.views)
        theta = torch.randn(2, 4, 12, generator=generator, dtype=torch.float64)[: 2 * alone.plan.steered]
        expected, state = gradients(alone, alone, [*images[:views], *theta])
        shared = build(settings, 2)
        shared.gather = distributed.all_gather
        split_batchnorm(shared, distributed.all_reduce)
        mine = [*images[:views, processes.rows(BATCH)], *theta[:, processes.rows(4)]]
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
