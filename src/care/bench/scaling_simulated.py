"""`care bench scaling --simulate`: measure one process, and simulate many with a model."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from care.bench.clock import time_calls
from care.bench.messages import Say, then_measuring
from care.bench.phases import phase_seconds
from care.bench.results import Report, Row, Table
from care.bench.roofline import similarity_seconds
from care.bench.scaling_links import Fabric
from care.bench.scaling_model import FORWARD_SHARE, Simulated, Workload, layers_of, simulate
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.training import build_step, building, warmup_calls
from care.objective import Objective, build_encoder
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark
from care.train.state import precision
from care.train.step import Step

# Seconds of a similarity if it was not measured: those of an H200.
ASSUMED_SIMILARITY = 36e-12
CARE_VIEWS = 4
WITHIN, QUEUE = "BatchNorm within a node", "a queue for negatives"
LARGER = 4


def simulated_table(work: Workload, fabric: Fabric, largest: int, source: str) -> Table:
    """Rows for 1, 8, 64 … `largest` processes, and for changes that would make the largest number faster."""
    numbers = [1, *(8**k for k in range(1, 10) if 8**k < largest), *([largest] if largest > 1 else [])]
    rows = [_row(f"CARE, {work.batch} images each", simulate(work, fabric, number)) for number in numbers]
    rows += [_row(name, found) for name, found in _what_if(work, fabric, largest).items()] if largest > 1 else []
    return Table("scaling", f"Simulated from {source}", tuple(rows), _notes(fabric))


def simulated_report(settings: Settings, work: Workload, fabric: Fabric, largest: int, source: str) -> Report:
    """The table alone, with the settings of this machine."""
    return Report(settings, (simulated_table(work, fabric, largest, source),))


def _what_if(work: Workload, fabric: Fabric, largest: int) -> dict[str, Simulated]:
    """Changes, one at a time: BatchNorm within a node, a queue of negatives of fixed size (only its new keys are
    gathered, without gradients), and a larger batch."""
    seconds = {name: LARGER * getattr(work, name) for name in ("draw", "forward", "backward")}
    larger = dataclasses.replace(work, batch=LARGER * work.batch, **seconds)
    keys = fabric.all_gather(work.embedding_width * work.batch * largest * work.dimension, largest)
    return {
        WITHIN: simulate(work, fabric, largest, normalized_over=fabric.node),
        QUEUE: dataclasses.replace(simulate(work, fabric, largest), contrast=0.0, gather=keys),
        f"CARE, {larger.batch} images each": simulate(larger, fabric, largest),
    }


def _row(name: str, found: Simulated) -> Row:
    parts = ("compute", "contrast", "gather", "batchnorm", "gradients")
    return {
        "name": name,
        "processes": found.processes,
        "samples_per_second": found.samples / found.seconds,
        "efficiency": found.efficiency,
        "ms_per_step": 1e3 * found.seconds,
        **{f"{part}_waited_ms" if part != "compute" else "compute_ms": 1e3 * getattr(found, part) for part in parts},
    }


def _notes(fabric: Fabric) -> tuple[str, ...]:
    inside, between = fabric.inside, fabric.between
    return (
        f"Links: nodes of {fabric.node} at {inside.rate / 1e9:g} GB/s and {1e6 * inside.hop:g} µs a hop, between them"
        f" {between.rate / 1e9:g} GB/s per process and {1e6 * between.hop:g} µs, {1e6 * fabric.start:g} µs to start.",
        "Compute is measured, everything else is simulated: see docs/scale.md. The columns add up to a step; messages"
        " that overlap the backward pass are in none of them.",
    )


def measure_workload(settings: Settings, say: Say) -> Workload:
    """The phases of CARE's step on one process of this machine, and a similarity of InfoNCE."""
    processes = distributed.start(settings.device)
    say(building(settings))
    with cudnn_benchmark():
        step = build_step(settings, processes, **CARE_SETTINGS)
        images = settings.random_images(settings.batch_size).to(processes.device)
        begun = then_measuring(say, "step", settings.seconds)
        timing = time_calls(
            lambda: step([images], 0), processes.device, settings.seconds, warmup_calls(step), begun=begun
        )
        phases = phase_seconds(step, images, timing.median, settings.seconds)
        say(f"{1e3 * timing.median:.1f} ms a step, measuring InfoNCE")
        similarity = similarity_seconds(processes.device, step.config.embedding_dim, settings.seconds / 4)
    return workload(settings, step, timing.median, phases, similarity)


def workload(settings: Settings, step: Step, whole: float, phases: dict[str, float], similarity: float) -> Workload:
    """The measurements of a step, with phases scaled so that they add up to `whole`."""
    objective, scale = step.state.objective, whole / sum(phases.values())
    seconds = {name: scale * value for name, value in phases.items()}
    width = precision(step.config, step.processes).itemsize
    return Workload(
        settings.batch_size, step.config.embedding_dim, _groups(objective), layers_of(objective.encoder),
        **seconds, similarity=similarity, embedding_width=width,
    )  # fmt: skip


def _groups(objective: Objective) -> int:
    return 1 if objective.joint else len(objective.seen)


def read_workload(file: Path) -> tuple[Workload, str]:
    """The workload of CARE in the JSON of `care bench train`, from any machine, and its source in words.

    ValueError, one sentence, for another file.
    """
    try:
        record = json.loads(file.read_text())
        row = next(row for row in record["tables"]["train"]["rows"] if row["name"] == "CARE")
        settings = Settings(**{**record["settings"], "processes": (1,), "device": "cpu"})
        gpu, whole = record["machine"]["gpu"], row["ms_per_step"] / 1e3
    except (OSError, ValueError, LookupError, TypeError, StopIteration) as error:
        raise ValueError(f"{file} is not what care bench train --out writes: {error!r}") from error
    config = settings.config(**CARE_SETTINGS)
    with torch.device("meta"):
        encoder = build_encoder(config, (settings.size, settings.size))
    work = Workload(
        settings.batch_size, config.embedding_dim, CARE_VIEWS, layers_of(encoder),
        **_phases(row, whole), similarity=row.get("similarity_ps", 1e12 * ASSUMED_SIMILARITY) / 1e12,
        embedding_width=2 if gpu else 4,
    )  # fmt: skip
    return work, f"{1e3 * whole:.1f} ms a step of {settings.model} on one {gpu or 'CPU'}"


def _phases(row: dict[str, Any], whole: float) -> dict[str, float]:
    """The measured phases, scaled to the whole; without them, the forward pass takes a third of it."""
    if row.get("forward_ms") is None:
        return {"draw": 0.0, "forward": FORWARD_SHARE * whole, "backward": (1 - FORWARD_SHARE) * whole, "update": 0.0}
    phases = {name: row[f"{name}_ms"] for name in ("draw", "forward", "backward", "update")}
    return {name: value * whole / sum(phases.values()) for name, value in phases.items()}
