"""Rows of `care bench train`: the training step of each method, and the same training as it is usually written."""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from care.bench.baseline import MOST_WORKERS, Baseline
from care.bench.clock import Timing, synchronize, time_calls
from care.bench.messages import Say, then_measuring, under
from care.bench.phases import phase_seconds
from care.bench.results import Row, Table
from care.bench.roofline import peak_flops, similarity_seconds, step_flops
from care.bench.settings import CARE_SETTINGS, METHODS, Settings
from care.train import Config, distributed
from care.train.arithmetic import cudnn_benchmark
from care.train.compiling import forget_compiled
from care.train.distributed import Processes
from care.train.state import build_state
from care.train.step import Step

PLAIN_LOOP = "plain PyTorch loop"
STEPS = 1 << 40  # of an epoch: however fast a step is, training does not end while it is measured
BASELINES: dict[str, dict[str, Any]] = {"SimCLR": {}, "CARE": CARE_SETTINGS}
# Our method → the baseline that does the same work.
COMPARED_WITH = {"SimCLR": "SimCLR", "CARE": "CARE", "CARE, joint BatchNorm": "CARE"}

NOTES = (
    "A step is what `care train` runs, on noise that is already on the device; medians over 5 blocks of steps.",
    "Phases, in ms: on a GPU, differences between prefixes of the step, each a CUDA graph; on a CPU, timed one by one"
    " in steps of their own, so that they need not add up to ms/step.",
    "The limit: 3 × the encoder's forward FLOPs × views (MoCo's keys 1 ×), at the rate of a large matrix product here.",
    f"{PLAIN_LOOP}: DataLoader, torchvision v2 on PIL pictures (an augmentation per picture in every view: the same"
    " work), a forward per view, Adam, our losses; without workers and with one per core (at most 16), the faster is"
    " shown.",
)


def measure_training(settings: Settings, say: Say) -> Table:
    """Every method's step, then the baselines, in one process on one device."""
    processes = distributed.start(settings.device)
    rows: dict[str, Row] = {}
    network = f"{settings.model} at {settings.size} px"
    with cudnn_benchmark():
        say("a large matrix product")
        peak = peak_flops(processes.device, min(settings.seconds, 1.0))
        similarity = similarity_seconds(processes.device, settings.config().embedding_dim, min(settings.seconds, 1.0))
        for name, chosen in METHODS.items():
            about = under(say, f"{network}, {name}")
            rows[name] = {"name": name, **_ours(settings, processes, peak, chosen, about)}
        for name, chosen in BASELINES.items():
            name = f"{name}, {PLAIN_LOOP}"
            about = under(say, f"{network}, {name}")
            rows[name] = {"name": name, **_theirs(settings, processes, peak, chosen, about)}
    rows["CARE"]["similarity_ps"] = 1e12 * similarity  # of InfoNCE, for care bench scaling --simulate
    for ours, theirs in COMPARED_WITH.items():
        rates = (rows[name]["samples_per_second"] for name in (ours, f"{theirs}, {PLAIN_LOOP}"))
        rows[ours]["ratio"] = next(rates) / next(rates)
    return Table("train", f"Training, limit {peak / 1e12:.2f} TFLOP/s", tuple(rows.values()), NOTES)


def build_step(settings: Settings, processes: Processes, **chosen: Any) -> Step:
    """The step of a method as `care train` sets it up, for the batches of `processes`."""
    config = settings.config(processes.world_size, **chosen)
    state = build_state(config, settings.random_samples(processes.world_size), processes)
    return Step(state, config, processes, STEPS)


def warmup_calls(step: Step) -> int:
    """How many calls it takes until a step is compiled and, if it uses a CUDA graph, captured."""
    return step.graph.few + 2 if step.graph else 2


def building(settings: Settings) -> str:
    """What happens until the end of the first step, in words."""
    return f"building{', compiling' if settings.compile else ''} …"


def _ours(settings: Settings, processes: Processes, peak: float, chosen: dict[str, Any], say: Say) -> Row:
    device, begun = processes.device, then_measuring(say, "step", settings.seconds)
    say(building(settings))
    with peak_memory(device) as memory:
        step = build_step(settings, processes, **chosen)
        images = settings.random_images(settings.batch_size).to(device)
        calls = warmup_calls(step)
        timing = time_calls(lambda: step([images], epoch=0), device, settings.seconds, calls, begun=begun)
    say(f"{1e3 * timing.median:.1f} ms a step, measuring its phases")
    phases = phase_seconds(step, images, timing.median, settings.seconds)
    row = step_row(step.config, settings.size, timing, peak)
    return row | {f"{name}_ms": 1e3 * value for name, value in phases.items()} | memory


def _theirs(settings: Settings, processes: Processes, peak: float, chosen: dict[str, Any], say: Say) -> Row:
    """The best of loading in this process and loading with workers."""
    candidates = []
    for workers, threads in _ways_to_load(processes.device):
        about = under(say, f"{workers} workers")
        about("building …")
        with peak_memory(processes.device) as memory, _threads(threads):
            step = Baseline(settings, processes.device, workers, **chosen)
            # Each worker loads two batches ahead, and delivers a batch every `workers` steps.
            warmup, multiple = 2 + 2 * workers, max(1, workers)
            begun = then_measuring(about, "step", settings.seconds)
            timing = time_calls(step, processes.device, settings.seconds, warmup, multiple, begun=begun)
            del step
        row = step_row(settings.config(**chosen), settings.size, timing, peak)
        candidates.append({"workers": workers, "threads": threads, **row, **memory})
    best = min(candidates, key=lambda row: row["ms_per_step"])
    tried = [{key: row[key] for key in ("workers", "threads", "samples_per_second")} for row in candidates]
    return {**best, "tried": tried}


def _ways_to_load(device: torch.device) -> list[tuple[int, int]]:
    """(workers, threads of this process); on a CPU, workers take the cores that training would use."""
    workers, threads = min(os.cpu_count() or 1, MOST_WORKERS), torch.get_num_threads()
    return [(0, threads), (workers, threads), *([(workers, 1)] if device.type == "cpu" and threads > 1 else [])]


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Compute with so many threads, without Python's warning about forking a process that has threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            yield
    finally:
        torch.set_num_threads(before)


def step_row(config: Config, size: int, timing: Timing, peak: float) -> Row:
    """The measurements of a step: its time, its rate, and its share of the limit of the machine."""
    flops = step_flops(config, size)
    return {
        "samples_per_second": config.batch_size / timing.median,
        "ms_per_step": 1e3 * timing.median,
        "fastest_ms": 1e3 * timing.fastest,
        "slowest_ms": 1e3 * timing.slowest,
        "steps": timing.calls,
        "flops_per_step": flops,
        "peak_flops": peak,
        "share_of_limit": flops / (timing.median * peak),
    }


@contextmanager
def peak_memory(device: torch.device) -> Iterator[dict[str, float | None]]:
    """The most memory that the block allocates on a GPU, in MB; memory of earlier rows is freed first."""
    found: dict[str, float | None] = {"memory_mb": None}
    gc.collect()
    forget_compiled()
    if device.type != "cuda":
        yield found
        return
    synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    yield found
    found["memory_mb"] = (torch.cuda.max_memory_allocated(device) - before) / 1e6
