"""Rows of `care bench loader` for pictures that are not prepared: JPEG files, and the same files in shards."""

import importlib.util
import io
import math
import tarfile
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from care.bench.clock import time_calls
from care.bench.results import Row
from care.bench.saying import Say, then_measuring
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.training import build_step, building, warmup_calls
from care.data import Samples, batches
from care.data.pool import cores_of_this_process
from care.data.streamed.opening import open_pictures
from care.train import distributed
from care.train.job import decoded_pixels
from care.train.step import Step

MOST_PHOTOS, DIFFERENT, SHARDS, ROWS_PER_GROUP = 4096, 64, 16, 100
WIDTH, HEIGHT = 9 / 4, 27 / 16  # of a photo, in sides of a view: 504 × 378 pixels for 224, as ImageNet's mostly are
NOTE = (
    "Not prepared: JPEG photos of {width} × {height} pixels, {kilobytes:.0f} kB each, decoded by {workers} processes to"
    " whole pictures of {side} px in random order; the first batch is not timed."
)


def measure_streaming(settings: Settings, folder: Path, say: Say) -> tuple[list[Row], str]:
    """A row for each kind of source, and what has to be said about them."""
    photos, side = photos_of(settings.size), decoded_pixels(settings.config()) or settings.size
    n = max(settings.batch_size, min(settings.images, MOST_PHOTOS))
    step = _Step(settings, say) if settings.on_gpu else None
    rows = list[Row]()
    for name, write in WRITERS.items():
        if write in NEED_PYARROW and importlib.util.find_spec("pyarrow") is None:
            continue
        say(f"writing {n:,} photos, {name}")
        write(folder / name, [photos[i % len(photos)] for i in range(n)])
        samples = open_pictures(folder / name, "train", side)
        say(name)
        rows.append({"name": f"not prepared, {name}", **_rate(samples, settings)})
        if step is not None:
            rows[-1]["waiting_share"] = step.waiting_share(samples)
    width, height = Image.open(io.BytesIO(photos[0])).size
    kilobytes = sum(map(len, photos)) / len(photos) / 1e3
    workers = cores_of_this_process()
    return rows, NOTE.format(width=width, height=height, kilobytes=kilobytes, workers=workers, side=side)


def photos_of(size: int) -> list[bytes]:
    """JPEG files of blurred noise with some grain, which take about as many bytes a pixel as photos do."""
    generator, (width, height) = np.random.default_rng(0), (round(WIDTH * size), round(HEIGHT * size))
    found = []
    for _ in range(DIFFERENT):
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
        grain = generator.normal(0, 12, (height, width, 1))
        data = io.BytesIO()
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(data, "JPEG", quality=90)
        found.append(data.getvalue())
    return found


def _rate(samples: Samples, settings: Settings) -> Row:
    """How many samples come in a second, when nothing else is done with them."""
    device, stream = torch.device(settings.device), _endless(samples, settings, torch.device(settings.device))
    try:
        seconds = time_calls(lambda: next(stream), device, settings.seconds, warmup=1).median
    finally:
        stream.close()  # type: ignore[attr-defined]
    bytes_of_batch = settings.batch_size * math.prod(samples.stored.shape[1:])
    return {"samples_per_second": settings.batch_size / seconds, "mb_per_second": bytes_of_batch / seconds / 1e6}


def _endless(samples: Samples, settings: Settings, device: torch.device) -> Iterator[Tensor]:
    """Whole pictures in the orders of epochs without end; full batches, as in training."""
    full = len(samples) // settings.batch_size * settings.batch_size
    order = (rows for epoch in count() for rows in samples.order(0, epoch)[:full].split(settings.batch_size))
    return batches(samples, order, device, whole=True)


class _Step:
    """A CARE step for whole pictures, and how long it takes on a batch that is there."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self.settings, self.say, self.processes = settings, say, distributed.start(settings.device)
        self.step: Step = build_step(settings, self.processes, **CARE_SETTINGS)
        self.alone: float | None = None

    def waiting_share(self, samples: Samples) -> float:
        """How much of a step the device waits for data."""
        device, seconds = self.processes.device, self.settings.seconds
        stream = _endless(samples, self.settings, device)
        try:
            if self.alone is None:
                self.say(f"a CARE step on one batch of whole pictures, then fed: {building(self.settings)}")
                batch, calls = next(stream), warmup_calls(self.step)
                begun = then_measuring(self.say, "step", seconds)
                self.alone = time_calls(lambda: self.step([batch], 0), device, seconds, calls, begun=begun).median
            fed = time_calls(lambda: self.step([next(stream)], 0), device, seconds)
        finally:
            stream.close()  # type: ignore[attr-defined]
        return max(0.0, 1 - self.alone / fed.median)


def _write_files(folder: Path, photos: Sequence[bytes]) -> None:
    folder.mkdir()
    for number, photo in enumerate(photos):
        (folder / f"{number:06d}.jpg").write_bytes(photo)


def _write_tars(folder: Path, photos: Sequence[bytes]) -> None:
    folder.mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:04d}.tar", "w") as archive:
            for number in range(shard, len(photos), SHARDS):
                member = tarfile.TarInfo(f"{number:06d}.jpg")
                member.size = len(photos[number])
                archive.addfile(member, io.BytesIO(photos[number]))


def _write_parquet(folder: Path, photos: Sequence[bytes]) -> None:
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    table = pyarrow.table({"image": [{"bytes": photo} for photo in photos]})
    pyarrow.parquet.write_table(table, folder / "photos.parquet", row_group_size=ROWS_PER_GROUP)


def _write_arrow(folder: Path, photos: Sequence[bytes]) -> None:
    import pyarrow

    folder.mkdir()
    table = pyarrow.table({"image": [{"bytes": photo} for photo in photos]})
    with pyarrow.ipc.new_stream(folder / "photos.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=ROWS_PER_GROUP)


WRITERS: dict[str, Callable[[Path, Sequence[bytes]], None]] = {
    "JPEG files": _write_files,
    "tar shards": _write_tars,
    "Parquet": _write_parquet,
    "Arrow": _write_arrow,
}
NEED_PYARROW = (_write_parquet, _write_arrow)
