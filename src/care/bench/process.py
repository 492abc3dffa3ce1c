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

from care.bench.clock import synchronize, time_calls
from care.bench.saying import Say, then_measuring
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.traffic import traffic_of
from care.bench.training import build_step, building, warmup_calls
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark
from care.train.distributed import Processes
from care.train.state import precision


def scaling(settings: Settings, meeting: str, say: Say) -> dict[str, Any]:
    """The step of CARE on all processes, which meet at `meeting`, and its communication alone."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if count > 1:
        backend = "nccl" if settings.on_gpu else "gloo"
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=count)
    processes = distributed.start(settings.device)
    say(building(settings))
    step = build_step(settings, processes, **CARE_SETTINGS)
    batch = settings.batch_size * count
    images = settings.random_images(batch)[processes.rows(batch)].to(processes.device)
    begun, calls = then_measuring(say, "step", settings.seconds), warmup_calls(step)
    timing = time_calls(lambda: step([images], 0), processes.device, settings.seconds, calls, agree=_agree, begun=begun)
    say(f"{1e3 * timing.median:.1f} ms a step, measuring its communication")
    width = precision(step.config, processes).itemsize
    sent = traffic_of(step.state.objective, count, batch, step.config.embedding_dim, width)
    return {
        "samples_per_second": batch / timing.median,
        "ms_per_step": 1e3 * timing.median,
        "gather_ms": _gather_ms(settings, step.config.embedding_dim, processes),
        "average_ms": _average_ms(settings, sum(p.numel() for p in step.state.objective.parameters()), processes),
        **dataclasses.asdict(sent),
    }


def _gather_ms(settings: Settings, dimension: int, processes: Processes) -> float | None:
    """Both views' embeddings, from all processes and their gradients back."""
    if processes.world_size == 1:
        return None
    dtype = torch.bfloat16 if settings.on_gpu else torch.float32
    shape = (2, settings.batch_size, dimension)
    z = torch.zeros(shape, dtype=dtype, device=processes.device, requires_grad=True)

    def gather() -> None:
        for view in z:
            distributed.all_gather(view).sum().backward()

    return 1e3 * time_calls(gather, processes.device, settings.seconds / 4, agree=_agree).median


def _average_ms(settings: Settings, parameters: int, processes: Processes) -> float | None:
    """A sum of as many numbers as there are parameters, over all processes."""
    if processes.world_size == 1:
        return None
    gradient = torch.zeros(parameters, device=processes.device)
    return (
        1e3 * time_calls(lambda: dist.all_reduce(gradient), processes.device, settings.seconds / 4, agree=_agree).median
    )


def _agree(calls: int) -> int:
    """The largest number that any process has in mind: all must make the same calls."""
    if not dist.is_initialized():
        return calls
    number = torch.tensor(calls, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return int(number.item())


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
