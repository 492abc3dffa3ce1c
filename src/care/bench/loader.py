"""Rows of `care bench loader`: batches streamed from a store on disk, and from pictures that are not prepared."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import torch

from care.bench.clock import synchronize
from care.bench.data_waiting import NOTE as WAITING
from care.bench.data_waiting import FedStep, Stream, full_batches
from care.bench.messages import Say, under
from care.bench.results import Row, Table
from care.bench.settings import Settings
from care.bench.streaming import measure_streaming
from care.data import Samples, batches, open_store, write_store
from care.data.readers import DataSource, Example
from care.train.arithmetic import cudnn_benchmark

SECONDS_BETWEEN_LINES = 10.0
NOTES = (
    "MB are 10⁶ bytes of images. Memory growth is that of the process's own memory over all passes after the first;"
    " pages of the mapped file are the system's and not counted.",
)


def measure_loader(settings: Settings, say: Say) -> Table:
    """A first pass with the file dropped from the system's cache, then passes from the cache, in random order."""
    device, rows = torch.device(settings.device), list[Row]()
    with tempfile.TemporaryDirectory(prefix="care-bench-") as folder:
        _write(settings, Path(folder) / "train", say)
        dropped = _drop_from_cache((Path(folder) / "train").glob("images-*.bin"))
        samples = open_store(Path(folder) / "train")
        name = "first pass, cache dropped" if dropped else "first pass"
        say(name)
        rows.append({"name": name, **_pass(samples, settings, device, passes=1)})
        before = own_memory()
        passes = max(1, round(settings.seconds / rows[0]["seconds_of_a_pass"]))
        say(f"{passes} passes more, after one of {rows[0]['seconds_of_a_pass']:.1f} s")
        rows.append({"name": f"{passes} passes more", **_pass(samples, settings, device, passes)})
        rows[1]["own_memory_growth_mb"] = _growth(before)
        with cudnn_benchmark():
            if settings.on_gpu:
                fed = FedStep(settings)
                rows[1] |= fed.measure(_endless(samples, settings, device), under(say, "fed from the store"))
                fed.forget()
            streamed, note = measure_streaming(settings, Path(folder), say)
    size = samples.nbytes / 1e6
    title = f"Streaming {len(samples):,} images of {settings.size} px, {size:,.0f} MB"
    return Table("loader", title, (*rows, *streamed), (*NOTES, note, *((WAITING,) if settings.on_gpu else ())))


def own_memory() -> float | None:
    """The anonymous memory of this process in MB, without mapped files; None unless the system is Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return int(found[0]) * 1024 / 1e6 if found else None


def _growth(before: float | None) -> float | None:
    after = own_memory()
    return None if before is None or after is None else after - before


def _write(settings: Settings, folder: Path, say: Say) -> None:
    """Write a store of noise, which disks and file systems cannot compress."""
    generator, shape = np.random.default_rng(0), (3, settings.size, settings.size)
    numbers = _counted(settings.images, under(say, f"writing {settings.images:,} images of {settings.size} px"))
    examples = (Example(generator.integers(0, 256, shape, dtype=np.uint8), 0) for _ in numbers)
    source = DataSource("noise", ("noise",), settings.size, settings.size, settings.images, examples)
    write_store(folder, "random", "train", source)


def _counted(images: int, say: Say) -> Iterator[int]:
    """The numbers below `images`, saying every few seconds how far they are."""
    said = time.perf_counter()
    for number in range(images):
        if number == 0 or time.perf_counter() - said > SECONDS_BETWEEN_LINES:
            say(f"{number / images:.0%}")
            said = time.perf_counter()
        yield number


def _drop_from_cache(files: Iterable[Path]) -> bool:
    """Ask the system to drop files from its page cache; False if it cannot be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def _endless(samples: Samples, settings: Settings, device: torch.device) -> Stream:
    yield from batches(samples, full_batches(samples, settings.batch_size, count()), device, resident=False)


def _pass(samples: Samples, settings: Settings, device: torch.device, passes: int) -> Row:
    started, seen = time.perf_counter(), 0
    for batch in batches(samples, full_batches(samples, settings.batch_size, range(passes)), device, resident=False):
        seen += len(batch)
    synchronize(device)
    seconds = time.perf_counter() - started
    return {
        "samples_per_second": seen / seconds,
        "mb_per_second": seen * samples.stored[0].nbytes / seconds / 1e6,
        "seconds_of_a_pass": seconds / passes,
    }
