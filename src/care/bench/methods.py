"""Rows of `care bench methods`: the step of every method, compared with SimCLR on as many views."""

import math
from typing import Any

from care.bench.clock import time_calls
from care.bench.messages import Say, then_measuring, under
from care.bench.results import Row, Table
from care.bench.settings import Settings
from care.bench.training import build_step, building, peak_memory, warmup_calls
from care.objective.registry import REGISTERED
from care.suggestions import did_you_mean
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark
from care.train.distributed import Processes

FEWEST, MOST = 2, 4  # views of SimCLR whose step is timed
SLOW = 0.8  # of the rate of SimCLR with as many views: below it, a method costs more than its views

NOTES = (
    "Each method by the name of its --method or, added to SimCLR, of its --equivariance, with its default settings.",
    "Views are counted by their pixels that go through the encoder; a teacher's go forward only, and count 1/3.",
    "The fraction is of SimCLR's samples/s with as many views. If that number of views was not timed, its time is "
    "on the line through the times of the two nearest.",
)


def chosen_methods(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The settings of each row, by its name: for the methods in `names`, or for all that are registered."""
    every: dict[str, dict[str, Any]] = {
        name: {kind: name} for kind, registered in REGISTERED.items() for name in registered
    }
    for name in names:
        if name not in every:
            hint = did_you_mean(name, every) or f"; there are {', '.join(every)}"
            raise ValueError(f"no method or equivariance is called {name!r}{hint}")
    return {name: chosen for name, chosen in every.items() if not names or name in names}


def check_methods(settings: Settings) -> None:
    """ValueError if a method to measure does not exist, or cannot be trained with these sizes."""
    for chosen in chosen_methods(settings.methods).values():
        settings.config(**chosen)


def measure_methods(settings: Settings, say: Say) -> Table:
    """Time SimCLR with as many views as the methods have, then every method, in one process on one device."""
    processes = distributed.start(settings.device)
    methods = chosen_methods(settings.methods)
    views = {name: settings.config(**chosen).views_a_step for name, chosen in methods.items()}
    with cudnn_benchmark():
        simclr = {
            n: _step(settings, processes, {"views": n}, under(say, f"simclr, {n} views"))
            for n in sorted({n for count in views.values() for n in around(count)})
        }
        seconds = {n: row["ms_per_step"] / 1e3 for n, row in simclr.items()}
        rows = []
        for name, chosen in methods.items():
            known = simclr.get(FEWEST) if name == "simclr" else None
            found = known or _step(settings, processes, chosen, under(say, name))
            rate = settings.batch_size / along(seconds, views[name])
            fraction = found["samples_per_second"] / rate
            rows.append({"name": name, "views": views[name], **found, "as_many_views": rate, "of_simclr": fraction})
    return Table("methods", "Methods, and SimCLR with as many views", tuple(rows), (*NOTES, _slow(rows)))


def around(views: float) -> tuple[int, ...]:
    """The timed numbers of views from which the time for `views` follows: itself, or the two nearest."""
    if views in range(FEWEST, MOST + 1):
        return (int(views),)
    low = min(max(math.floor(views), FEWEST), MOST - 1)
    return low, low + 1


def along(seconds: dict[int, float], views: float) -> float:
    """Seconds of a step with so many views, along the line through the two nearest."""
    low, *high = around(views)
    return seconds[low] + (views - low) * (seconds[high[0]] - seconds[low]) if high else seconds[low]


def _step(settings: Settings, processes: Processes, chosen: dict[str, Any], say: Say) -> Row:
    """The step of a method as `care train` sets it up."""
    device, begun = processes.device, then_measuring(say, "step", settings.seconds)
    say(building(settings))
    with peak_memory(device) as memory:
        step = build_step(settings, processes, **chosen)
        images = settings.random_images(settings.batch_size).to(device)
        timing = time_calls(lambda: step([images], epoch=0), device, settings.seconds, warmup_calls(step), begun=begun)
    say(f"{1e3 * timing.median:.1f} ms a step")
    return {
        "samples_per_second": settings.batch_size / timing.median,
        "ms_per_step": 1e3 * timing.median,
        "fastest_ms": 1e3 * timing.fastest,
        "slowest_ms": 1e3 * timing.slowest,
        "steps": timing.calls,
        **memory,
    }


def _slow(rows: list[Row]) -> str:
    """Which methods cost more than their views."""
    slow = [f"{row['name']} ({row['of_simclr']:.2f})" for row in rows if row["of_simclr"] < SLOW]
    return f"Slower than {SLOW:g} of SimCLR: {', '.join(slow) or 'none'}."
