"""`python -m care.bench.process`: what `care bench scaling` and `care bench start` measure in a process of its own."""

import dataclasses
import json
import os
import sys
import time
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, HashStore

from care.bench.clock import synchronize, time_calls
from care.bench.limit import similarity_seconds
from care.bench.phases import phase_seconds
from care.bench.saying import Say, then_measuring
from care.bench.scaling_links import fitted
from care.bench.scaling_model import Workload, simulate
from care.bench.scaling_simulated import workload
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.traffic import traffic_of
from care.bench.training import build_step, building, warmup_calls
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark
from care.train.distributed import Processes
from care.train.state import precision

# Bytes of the sums that a link is measured with: one for what a message takes at least, one for its rate.
FEW, MANY = 1 << 10, 1 << 22


def scaling(settings: Settings, meeting: str, say: Say) -> dict[str, Any]:
    """The step of CARE on all processes, which meet at `meeting`, its communication alone, and what was predicted."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    say(building(settings))
    alone = _alone(settings, meeting, count, say) if count > 1 else None
    if count > 1:
        dist.init_process_group(_backend(settings), init_method=meeting, rank=rank, world_size=count)
    processes = distributed.start(settings.device)
    step = build_step(settings, processes, **CARE_SETTINGS)
    batch = settings.batch_size * count
    images = settings.random_images(batch)[processes.rows(batch)].to(processes.device)
    begun, calls = then_measuring(say, "step", settings.seconds), warmup_calls(step)
    agree, device = distributed.all_reduce_max, processes.device
    timing = time_calls(lambda: step([images], 0), device, settings.seconds, calls, agree=agree, begun=begun)
    say(f"{1e3 * timing.median:.1f} ms a step, measuring its communication")
    width = precision(step.config, processes).itemsize
    sent = traffic_of(step.state.objective, count, batch, step.config.embedding_dim, width)
    return {
        "samples_per_second": batch / timing.median,
        "ms_per_step": 1e3 * timing.median,
        "gather_ms": _gather_ms(settings, step.config.embedding_dim, processes),
        "average_ms": _average_ms(settings, sum(p.numel() for p in step.state.objective.parameters()), processes),
        **dataclasses.asdict(sent),
        **(_prediction(*alone, settings, processes, timing.median) if alone else {}),
    }


def _backend(settings: Settings) -> str:
    return "cpu:gloo,cuda:nccl" if settings.on_gpu else "gloo"


def _alone(settings: Settings, meeting: str, count: int, say: Say) -> tuple[Workload, float]:
    """What this process takes in a group of its own, while all others do the same; and for a sum of a few bytes there.

    It is the same program, with the same share of the machine; what is missing is the others' answers. On a GPU it
    needs no group for that, and a sum of its own takes nothing.
    """
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if settings.on_gpu else torch.device("cpu")
    if not settings.on_gpu:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    step = build_step(settings, Processes(0, 1, device), **CARE_SETTINGS)
    images = settings.random_images(settings.batch_size).to(device)
    step([images], 0)
    _meet(meeting.removeprefix("file://") + "-alone", count)
    say("measuring it alone")
    timing = time_calls(lambda: step([images], 0), device, settings.seconds, warmup_calls(step))
    phases = phase_seconds(step, images, timing.median, settings.seconds)
    similarity = similarity_seconds(device, step.config.embedding_dim, settings.seconds / 4)
    work = workload(settings, step, timing.median, phases, similarity)
    if settings.on_gpu:
        return work, 0.0
    few = _sum_seconds(FEW, settings, device)
    dist.destroy_process_group()
    return work, few


def _meet(file: str, count: int) -> None:
    """Until so many processes have come here."""
    store = FileStore(file, count)
    store.add("here", 1)
    while store.add("here", 0) < count:
        time.sleep(0.01)


def _prediction(
    work: Workload, few_alone: float, settings: Settings, processes: Processes, measured: float
) -> dict[str, float]:
    """What the model says of this step, with links as fast as they are here; and by how much it is off."""
    few, many = (_sum_seconds(size, settings, processes.device) for size in (FEW, MANY))
    fabric = fitted(processes.world_size, max(few - few_alone, 0.0), many - few_alone, MANY)
    predicted = simulate(work, fabric, processes.world_size).seconds
    return {
        "alone_ms": 1e3 * work.seconds,
        "link_us": 1e6 * fabric.start,
        "link_mb_per_second": fabric.inside.rate / 1e6,
        "predicted_ms": 1e3 * predicted,
        "prediction_error": predicted / measured - 1,
    }


def _sum_seconds(size: int, settings: Settings, device: torch.device) -> float:
    """Seconds of a sum of so many bytes over all processes."""
    numbers = torch.zeros(size // 4, device=device)
    agree = distributed.all_reduce_max
    return time_calls(lambda: dist.all_reduce(numbers), device, settings.seconds / 8, agree=agree).median


def _gather_ms(settings: Settings, dimension: int, processes: Processes) -> float | None:
    """Both views' embeddings, from all processes and their gradients back."""
    if processes.world_size == 1:
        return None
    dtype = torch.bfloat16 if settings.on_gpu else torch.float32
    z = torch.zeros(settings.batch_size, 2 * dimension, dtype=dtype, device=processes.device, requires_grad=True)

    def gather() -> None:
        distributed.all_gather(z).sum().backward()

    return 1e3 * time_calls(gather, processes.device, settings.seconds / 4, agree=distributed.all_reduce_max).median


def _average_ms(settings: Settings, parameters: int, processes: Processes) -> float | None:
    """A sum of as many numbers as there are parameters, over all processes."""
    if processes.world_size == 1:
        return None
    return 1e3 * _sum_seconds(4 * parameters, settings, processes.device)


def start(settings: Settings, started: float, say: Say) -> dict[str, float]:
    """Seconds since `started`, when this process was started, at the end of the first step of CARE."""
    imported = time.time()
    say(f"imported after {imported - started:.1f} s, {building(settings)}")
    processes = distributed.start(settings.device)
    step = build_step(settings, processes, **CARE_SETTINGS)
    images = settings.random_images(settings.batch_size).to(processes.device)
    synchronize(processes.device)
    built = time.time()
    step([images], 0)
    synchronize(processes.device)
    done = time.time()
    return {
        "seconds": done - started,
        "import_seconds": imported - started,
        "build_seconds": built - imported,
        "step_seconds": done - built,
    }


def main(task: str, encoded: str, argument: str) -> None:
    """Print what `task` does, and on the last line what it finds, as JSON."""
    values = json.loads(encoded)
    settings = Settings(**{**values, "processes": tuple(values["processes"])})
    say = partial(print, flush=True)
    with cudnn_benchmark():
        found = scaling(settings, argument, say) if task == "scaling" else start(settings, float(argument), say)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
