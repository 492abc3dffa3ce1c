"""The one file that knows about process groups.

Each process computes a loss ℓ_r; DistributedDataParallel averages the gradients. What crosses processes in the forward
pass (gathered embeddings, BatchNorm's sums) carries the gradients of all processes' losses back, so the average is
the gradient of (1/W) Σ_r ℓ_r, which is the loss of one process on the whole batch.
"""

import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among all: `rank` of `count`, on `device`."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def rows(self, batch: int) -> slice:
        """The rows of a global batch that are this process's."""
        share = batch // self.count
        return slice(self.rank * share, (self.rank + 1) * share)


def start(device: str) -> Processes:
    """Join the process group that torchrun announces in the environment, if it does."""
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = torch.device(resolve_device(device))
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if chosen.index is None else chosen.index)
        torch.cuda.set_device(chosen)
    if count > 1 and not dist.is_initialized():
        _join("nccl" if chosen.type == "cuda" else "gloo")
    return Processes(rank, count, chosen)


def _join(backend: str) -> None:
    """Meet the others. torchrun keeps its store over restarts: what dead processes left there must not be read."""
    store, rank, count = next(rendezvous("env://"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = PrefixStore(f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=count)


def resolve_device(device: str) -> str:
    """The device that "auto" means here, or the one that was asked for, if it is there."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device, re.ASCII):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:1, got {device!r}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device} was asked for, but there is no GPU that torch can use; use --device cpu")
    number = int(device.partition(":")[2] or 0)
    if device != "cpu" and number >= torch.cuda.device_count():
        raise ValueError(f"device {device} was asked for, but the GPUs here are 0 to {torch.cuda.device_count() - 1}")
    return device


def stop() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def parallel(method: nn.Module, processes: Processes) -> nn.Module:
    """The method with averaged gradients, or itself on one process. Buffers stay equal by being computed equally."""
    if processes.count == 1:
        return method
    ids = [processes.device.index] if processes.device.type == "cuda" else None
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # newer torch has another name for it
        return nn.parallel.DistributedDataParallel(method, device_ids=ids, broadcast_buffers=False)


def gather(x: Tensor) -> Tensor:
    """The rows of all processes, in the order of their ranks."""
    return _Gather.apply(x) if dist.is_initialized() else x


def total(x: Tensor) -> Tensor:
    """The sum over all processes."""
    return _Total.apply(x) if dist.is_initialized() else x


def highest(value: int) -> int:
    """The highest value of all processes: all of them learn it."""
    if not dist.is_initialized():
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    values = torch.tensor(value, device=device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return int(values.item())


def any_process(flag: bool) -> bool:
    """Whether any process says yes: all of them learn it."""
    return bool(highest(int(flag)))


def by_first(processes: Processes, work: Callable[..., T], *arguments: Any) -> T | None:
    """What `work(*arguments)` returns on the first process, None on the others. If it fails there, all processes stop.

    Otherwise they would wait for one that is gone.
    """
    problem, result = None, None
    if processes.first:
        try:
            result = work(*arguments)
        except (ValueError, OSError) as error:
            problem = error
    if any_process(problem is not None):
        raise problem or OSError("the first process had to stop; it says why")
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone(memory_format=torch.contiguous_format)  # autograd may hand the same one to others
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient
