"""Time CARE's step on several processes of a machine, and predict this time with the model of `scaling_model`.

The load of a machine changes from one second to the next. So steps of all processes together take turns with steps of
each process alone, in a group of its own, all at the same time: the same program with the same share of the cores, but
no communication. The steps together are predicted from the steps alone and from the time of two messages.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from care.bench.clock import BLOCKS, seconds_of, time_calls
from care.bench.messages import Say, then_measuring
from care.bench.phases import phase_seconds
from care.bench.roofline import similarity_seconds
from care.bench.scaling_links import Fabric, fitted
from care.bench.scaling_model import Workload, simulate
from care.bench.scaling_simulated import workload
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.traffic import FP32, traffic_of
from care.bench.training import build_step, building, warmup_calls
from care.data.pool import all_cores
from care.train import distributed
from care.train.distributed import Processes
from care.train.state import precision
from care.train.step import Step

# Bytes of the sums that measure a link: a small one for its latency, a large one for its rate.
FEW, MANY = 1 << 10, 1 << 22
MESSAGES = 50  # of each size


def scaling(settings: Settings, meeting: str, say: Say) -> dict[str, Any]:
    """Time the step of CARE on all processes, which meet at `meeting`, and its communication; predict the former."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if count > 1:
        backend = "cpu:gloo,cuda:nccl" if settings.on_gpu else "gloo"
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=count)
    processes = distributed.start(settings.device)
    say(building(settings))
    step, batch = build_step(settings, processes, **CARE_SETTINGS), settings.batch_size * count
    images = settings.random_images(batch)[processes.rows(batch)].to(processes.device)
    begun, call = then_measuring(say, "step", settings.seconds), lambda: step([images], 0)
    begun(seconds_of(call, 1, processes.device))
    times = _one(settings, step, call) if count == 1 else _several(settings, step, call)
    say(f"{times['ms_per_step']:.1f} ms a step, measuring its communication")
    width, dimension = precision(step.config, processes).itemsize, step.config.embedding_dim
    return {
        "samples_per_second": 1e3 * batch / times["ms_per_step"],
        **times,
        "gather_ms": _gather_ms(settings, dimension, processes),
        "average_ms": _average_ms(settings, sum(p.numel() for p in step.state.objective.parameters()), processes),
        **dataclasses.asdict(traffic_of(step.state.objective, count, batch, dimension, width)),
    }


def _one(settings: Settings, step: Step, call: Callable[[], object]) -> dict[str, float]:
    timing = time_calls(call, step.processes.device, settings.seconds, warmup_calls(step))
    return {"ms_per_step": 1e3 * timing.median}


def _several(settings: Settings, step: Step, call: Callable[[], object]) -> dict[str, float]:
    """Medians over blocks of steps together; each is predicted from the block of steps alone before it."""
    alone = _Alone(settings, step.processes.device)
    for _ in range(warmup_calls(step)):
        call()
        alone()
    blocks = _taking_turns((alone, call), step.processes.device, settings.seconds)
    work, fabric = alone.workload(statistics.median(before for before, _ in blocks)), _links(settings, alone)
    predicted = [simulate(work.scaled(before), fabric, step.processes.world_size).seconds for before, _ in blocks]
    errors = [found / together - 1 for found, (_, together) in zip(predicted, blocks, strict=True)]
    return {
        "ms_per_step": 1e3 * statistics.median(together for _, together in blocks),
        "alone_ms": 1e3 * work.seconds,
        "link_us": 1e6 * fabric.start,
        "link_mb_per_second": fabric.inside.rate / 1e6,
        "predicted_ms": 1e3 * statistics.median(predicted),
        "prediction_error": statistics.median(errors),
        "lowest_error": min(errors),
        "highest_error": max(errors),
    }


class _Alone:
    """A step of this process in a group of its own; on a GPU in no group, since a sum over one takes no time there."""

    def __init__(self, settings: Settings, device: torch.device) -> None:
        self.settings, self.images = settings, settings.random_images(settings.batch_size).to(device)
        own = None if settings.on_gpu else dist.new_group([dist.get_rank()], use_local_synchronization=True)
        self.group = own if isinstance(own, dist.ProcessGroup) else None
        with self.here():
            self.step = build_step(settings, Processes(0, 1, device), **CARE_SETTINGS)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Keep messages within this process."""
        world = dist.group.WORLD
        dist.group.WORLD = self.group
        try:
            yield
        finally:
            dist.group.WORLD = world

    def __call__(self) -> None:
        with self.here():
            self.step([self.images], 0)

    def workload(self, whole: float) -> Workload:
        """The work of a process in a step that takes `whole` seconds, measured by all processes at the same time."""
        seconds, device = self.settings.seconds, self.images.device
        with self.here():
            phases = phase_seconds(self.step, self.images, whole, seconds)
            similarity = similarity_seconds(device, self.step.config.embedding_dim, seconds / 4)
        return workload(self.settings, self.step, whole, phases, similarity)


def _taking_turns(
    calls: Sequence[Callable[[], object]], device: torch.device, seconds: float
) -> list[tuple[float, ...]]:
    """Seconds per call on the slowest process, in blocks of each call in turn, about `seconds` for each in all."""

    def slowest(call: Callable[[], object], n: int) -> float:
        return distributed.all_reduce_max(round(1e9 * seconds_of(call, n, device))) / 1e9 / n

    calls_of_a_block = [max(1, round(seconds / BLOCKS / slowest(call, 1))) for call in calls]
    return [tuple(map(slowest, calls, calls_of_a_block)) for _ in range(BLOCKS)]


def _links(settings: Settings, alone: _Alone) -> Fabric:
    """The fabric as measured here, without the time that a message takes in one process alone."""
    device, own = alone.images.device, 0.0
    if not settings.on_gpu:
        with alone.here():
            own = _message_seconds(FEW, settings, device)
    few, many = (_message_seconds(size, settings, device) for size in (FEW, MANY))
    return fitted(dist.get_world_size(), max(few - own, 0.0), many - own, MANY)


def _message_seconds(size: int, settings: Settings, device: torch.device) -> float:
    """Seconds that a sum of so many bytes adds to a step: the median, since other programs delay some of them.

    With less than a core per process, a process that waits for a message leaves its core to another one, which
    computes: its waiting is part of the time of steps alone. What is added is the time that a core is busy with the
    messages of all processes that share it.
    """
    if settings.on_gpu:
        return _sum_seconds(size, settings, device)
    numbers, sharing = torch.zeros(size // FP32), dist.get_world_size() / all_cores()
    dist.all_reduce(numbers)  # the first one connects them
    started = time.process_time()
    seconds = [seconds_of(lambda: dist.all_reduce(numbers), 1, device) for _ in range(MESSAGES)]
    busy = (time.process_time() - started) / MESSAGES
    return statistics.median(seconds) if sharing <= 1 else sharing * busy


def _sum_seconds(size: int, settings: Settings, device: torch.device) -> float:
    """Seconds of a sum of so many bytes over all processes, one after the other."""
    numbers, agree = torch.zeros(size // FP32, device=device), distributed.all_reduce_max
    return time_calls(lambda: dist.all_reduce(numbers), device, settings.seconds / 8, agree=agree).median


def _gather_ms(settings: Settings, dimension: int, processes: Processes) -> float | None:
    """Milliseconds to gather both views' embeddings from all processes, and to return their gradients."""
    if processes.world_size == 1:
        return None
    dtype = torch.bfloat16 if settings.on_gpu else torch.float32
    z = torch.zeros(settings.batch_size, 2 * dimension, dtype=dtype, device=processes.device, requires_grad=True)

    def gather() -> None:
        distributed.all_gather(z).sum().backward()

    return 1e3 * time_calls(gather, processes.device, settings.seconds / 4, agree=distributed.all_reduce_max).median


def _average_ms(settings: Settings, parameters: int, processes: Processes) -> float | None:
    """Milliseconds of a sum of as many numbers as there are parameters, over all processes."""
    if processes.world_size == 1:
        return None
    return 1e3 * _sum_seconds(FP32 * parameters, settings, processes.device)
