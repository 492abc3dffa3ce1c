"""Process groups, with all collective operations of training.

Rank r of W computes a loss ℓ_r; DistributedDataParallel averages the gradients. The backward pass of `all_gather`
(embeddings) and `all_reduce` (BatchNorm's sums) adds up the gradients of all ranks' losses, so that the average is the
gradient of (1/W) Σ_r ℓ_r, which is the loss of one process on the global batch.
"""

import atexit
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
PARENT = os.getppid()  # torchrun, if it started this process


@dataclass(frozen=True)
class Processes:
    """This process, `rank` of `world_size`, and its device."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_rank_0(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    @property
    def together(self) -> bool:
        """Whether there is a process group; it may have a single process."""
        return dist.is_initialized()

    def rows(self, batch: int) -> slice:
        """The rows of a global batch that belong to this rank."""
        share = batch // self.world_size
        return slice(self.rank * share, (self.rank + 1) * share)


def start(device: str) -> Processes:
    """Join the process group that torchrun's environment variables describe, if any, and leave it when Python exits.

    A process group that is not destroyed makes NCCL warn at the end of the program. Leaving at exit covers every way in
    which training ends: finished, stopped, or with an error.

    GPU tensors travel by NCCL and CPU tensors by gloo, so that messages between hosts never wait for a GPU.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = torch.device(resolve_device(device))
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if chosen.index is None else chosen.index)
        torch.cuda.set_device(chosen)
    if world_size > 1:
        if not dist.is_initialized():
            _join("cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo")
        atexit.register(_leave)
    return Processes(rank, world_size, chosen)


def _join(backend: str) -> None:
    """Initialize the process group, under a new key prefix: torchrun's store still holds the keys of dead processes."""
    store, rank, world_size = next(rendezvous("env://"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = PrefixStore(f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)


def launcher_is_gone() -> bool:
    """Whether torchrun was killed by SIGKILL, which leaves it no chance to end its processes."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != PARENT


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def check_device(device: str) -> None:
    """ValueError if this is not the name of a device; the device need not be available."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device, re.ASCII):
        raise ValueError(f"device must be auto, cpu, cuda, cuda:1 or mps, got {device!r}")


def resolve_device(device: str) -> str:
    """The device for "auto", or the named one; ValueError if it is not available."""
    check_device(device)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "mps":
        if not torch.backends.mps.is_available():
            raise ValueError("device mps was asked for, but torch finds no Apple GPU: choose `device` cpu")
        return device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device} was asked for, but there is no GPU that torch can use: choose `device` cpu")
    number = int(device.partition(":")[2] or 0)
    if device != "cpu" and number >= torch.cuda.device_count():
        raise ValueError(f"device {device} was asked for, but the GPUs here are 0 to {torch.cuda.device_count() - 1}")
    return device


def parallel(method: nn.Module, processes: Processes) -> nn.Module:
    """The method in DistributedDataParallel, or the method itself without a process group.

    Buffers are not broadcast: every rank computes the same values.
    """
    if not processes.together:
        return method
    ids = [processes.device.index] if processes.device.type == "cuda" else None
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # newer versions of torch rename it
        return nn.parallel.DistributedDataParallel(method, device_ids=ids, broadcast_buffers=False)


def all_gather(x: Tensor) -> Tensor:
    """The rows of all ranks, in their order, with gradients."""
    return _AllGather.apply(x) if dist.is_initialized() else x


def all_reduce(x: Tensor) -> Tensor:
    """The sum over all ranks, with gradients."""
    return _AllReduce.apply(x) if dist.is_initialized() else x


def all_reduce_max(value: int) -> int:
    """The maximum over all ranks, on every rank."""
    if not dist.is_initialized():
        return value
    values = torch.tensor(value)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return int(values)


class Agreement:
    """The maximum over all ranks of a wish, computed without making ranks wait. A rank repeats a wish until granted.

    At every `every`-th call, the ranks start an all-reduce of their wishes and read the result of the previous one; all
    other calls return 0. A rank thus waits only for ranks that are `every` steps behind. Without a process group, each
    call returns the wish.
    """

    def __init__(self, every: int) -> None:
        self.every, self.calls = every, 0
        self.message: tuple[Tensor, dist.Work] | None = None

    def __call__(self, wish: int) -> int:
        """The wish that is granted now, the same on every rank."""
        if not dist.is_initialized():
            return wish
        self.calls += 1
        if self.calls % self.every:
            return 0
        granted = self._answer()
        values = torch.tensor(0 if granted else wish)  # a wish that is granted now is not sent again
        work = dist.all_reduce(values, op=dist.ReduceOp.MAX, async_op=True)
        self.message = (values, work)
        return granted

    def _answer(self) -> int:
        if self.message is None:
            return 0
        values, work = self.message
        work.wait()
        return int(values)


def any_rank(flag: bool) -> bool:
    """Whether `flag` is true on any rank; all ranks get the answer."""
    return bool(all_reduce_max(int(flag)))


def text_of_rank_0(text: str) -> str:
    """The text of rank 0, on every rank."""
    if not dist.is_initialized():
        return text
    texts = [text]
    dist.broadcast_object_list(texts, src=0)
    return texts[0]


def differs(text: str) -> bool:
    """Whether any rank has another text than rank 0; all ranks get the answer."""
    return any_rank(text_of_rank_0(text) != text)


def on_rank_0(processes: Processes, work: Callable[..., T], *arguments: Any) -> T | None:
    """Run `work(*arguments)` on rank 0 and return its result there, None on the other ranks.

    If it raises, the other ranks raise OSError instead of waiting for rank 0 forever.
    """
    problem, result = None, None
    if processes.is_rank_0:
        try:
            result = work(*arguments)
        except Exception as error:
            problem = error
    if any_rank(problem is not None):
        raise problem or OSError("rank 0 had to stop: its error says why")
    return result


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        rows = x.new_empty((dist.get_world_size() * len(x), *x.shape[1:]))
        dist.all_gather_into_tensor(rows, x.contiguous())
        return rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The sum over all ranks of the gradient of our own rows, by reduce-scatter: each rank receives only its own.

        bf16 gradients are summed in fp32, because the sum over hundreds of ranks would be rounded at every addition.
        """
        exact = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).contiguous()
        own = exact.new_empty((len(exact) // dist.get_world_size(), *exact.shape[1:]))
        dist.reduce_scatter_tensor(own, exact)
        return own.to(gradient.dtype)


class _AllReduce(torch.autograd.Function):
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
