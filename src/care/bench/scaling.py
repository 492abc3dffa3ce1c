"""Rows of `care bench scaling` and `care bench start`, which train in separate processes."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from care.bench.messages import Say, under
from care.bench.results import Row, Table
from care.bench.settings import Settings

PAUSE = 0.05
COMPILER_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def measure_scaling(settings: Settings, say: Say) -> Table:
    """Time CARE on several processes with the same batch each."""
    numbers = sorted({1, *settings.processes})
    threads = max(1, (os.cpu_count() or 1) // max(numbers))
    rows: list[Row] = []
    for number in numbers:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        found = _together(settings, number, threads, under(say, f"{number} process{'es' * (number > 1)}"))
        rows.append({"name": "CARE", "processes": number, "threads": threads, "load": load, **found})
    alone = rows[0]["samples_per_second"]
    rows = [{**row, "efficiency": row["samples_per_second"] / (row["processes"] * alone)} for row in rows]
    return Table(
        "scaling", f"Several processes, batch {settings.batch_size} each", tuple(rows), _notes(settings, threads)
    )


def _notes(settings: Settings, threads: int) -> tuple[str, ...]:
    shared = (
        "Each process has a GPU; nccl."
        if settings.on_gpu
        else f"All on this machine, gloo: {threads} thread(s) each, but caches and memory bandwidth are shared, and the"
        " cores too where there are more processes than cores."
    )
    return (
        shared,
        "Efficiency: samples/s ÷ (processes × samples/s of one). Gathering (two views, forward and backward) and"
        " averaging gradients are timed alone; in a step, averaging overlaps the backward pass.",
        "Predicted by the model of docs/scale.md, from the time of messages and of steps in which all processes compute"
        " but do not communicate; these take turns with steps of all processes together.",
        "Load: how many processes wanted a core in the minute before.",
        "Bytes are what a process sends with ring algorithms, by formula: see docs/scale.md.",
    )


def measure_start(settings: Settings, say: Say) -> Table:
    """Time from starting Python to the end of the first step of CARE, with an empty and a filled compiler cache."""
    names = ("empty compiler cache", "filled compiler cache") if settings.compile else ("fresh process",)
    rows = list[Row]()
    with tempfile.TemporaryDirectory(prefix="care-bench-") as folder:
        caches = {name: str(Path(folder) / name) for name in COMPILER_CACHES}
        for name in names:
            started = time.time()
            arguments = ["start", _encoded(settings), repr(started)]
            (found,) = _run(arguments, [{**os.environ, **caches}], under(say, name))
            rows.append({"name": name, **found})
    return Table("start", "From nothing to the first step of CARE", tuple(rows))


def _together(settings: Settings, number: int, threads: int, say: Say) -> Row:
    """The measurements of the first of `number` processes."""
    with tempfile.TemporaryDirectory(prefix="care-bench-") as folder:
        environments = [
            {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(number),
                "OMP_NUM_THREADS": str(threads),
            }
            for rank in range(number)
        ]
        return _run(["scaling", _encoded(settings), f"file://{folder}/meeting"], environments, say)[0]


def _encoded(settings: Settings) -> str:
    return json.dumps(dataclasses.asdict(settings))


def _run(arguments: list[str], environments: Sequence[dict[str, str]], say: Say) -> list[dict[str, Any]]:
    """Run `care.bench.process` once per environment, at the same time, and return the JSON that each printed last.

    Earlier lines of the first process are passed to `say` as they come.
    """
    command = [sys.executable, "-m", "care.bench.process", *arguments]
    with tempfile.TemporaryDirectory(prefix="care-bench-") as folder:
        files = [(Path(folder) / f"{i}.out", Path(folder) / f"{i}.err") for i in range(len(environments))]
        running, heard = [], _Heard(files[0][0], say)
        say("starting Python …")
        for (out, err), environment in zip(files, environments, strict=True):
            with out.open("wb") as stdout, err.open("wb") as stderr:
                running.append(subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr))
        _wait(running, heard)
        for process, (_, err) in zip(running, files, strict=True):
            if process.returncode > 0:
                raise RuntimeError(f"a measuring process failed: {err.read_text()[-2000:]}")
        return [json.loads(out.read_text().splitlines()[-1]) for out, _ in files]


class _Heard:
    """Passes on, at each call, the lines that a process has printed since, except for its result, a line of JSON."""

    def __init__(self, file: Path, say: Say) -> None:
        self.file, self.say, self.lines = file, say, 0

    def __call__(self) -> None:
        whole = self.file.read_text(errors="replace").split("\n")[:-1]
        for line in whole[self.lines :]:
            if not line.startswith("{"):
                self.say(line)
        self.lines = len(whole)


def _wait(running: Sequence["subprocess.Popen[bytes]"], heard: Callable[[], None]) -> None:
    """Wait for all to end. If one fails, or on an interrupt, end the others, which would wait for it forever."""
    try:
        while any(process.poll() is None for process in running):
            heard()
            if any(process.poll() for process in running):
                break
            time.sleep(PAUSE)
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
            process.wait()
