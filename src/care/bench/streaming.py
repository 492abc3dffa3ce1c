"""Rows of `care bench loader` for pictures that are not prepared: JPEG files, and the same files in shards."""

import importlib.util
import io
import math
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from care.bench.clock import time_calls
from care.bench.data_waiting import FedStep, Stream, full_batches
from care.bench.messages import Say, under
from care.bench.results import Row
from care.bench.settings import Settings
from care.data import Samples, batches
from care.data.pool import cores_of_this_process
from care.data.streamed.gpu_decoders import nvjpeg
from care.data.streamed.opening import open_pictures
from care.data.streamed.pictures import Decoder
from care.train.job import decoded_pixels

FILES = "JPEG files"
CACHED = ", from a cache"
MOST_PHOTOS, DIFFERENT, SHARDS, ROWS_PER_GROUP = 4096, 64, 16, 100
WIDTH, HEIGHT = 9 / 4, 27 / 16  # of a photo, in sides of a view: 504 × 378 pixels for 224, as ImageNet's mostly are
DECODERS: tuple[tuple[Decoder, str], ...] = (("cpu", ""), ("gpu", ", decoded by the GPU"))
NOTE = (
    "Not prepared: JPEG photos of {width} × {height} pixels, a quarter of them upright, {kilobytes:.0f} kB each,"
    " decoded by {workers} processes, or by the GPU, to whole pictures of {side} px in random order; the first batch is"
    " not timed. From a cache: up to {most:,} that were decoded before (--cache), most likely in memory."
)
NOTE_OF_GIVEN = (
    "{n:,} pictures of {photos}, decoded by {workers} processes, or by the GPU, to whole pictures of {side} px in"
    " random order; the first batch is not timed. From a cache: up to {most:,} that were decoded before (--cache), most"
    " likely in memory."
)


def measure_streaming(settings: Settings, folder: Path, say: Say) -> tuple[list[Row], str]:
    """A row for each kind of source, on a GPU another with the GPU as the decoder; and a note on them."""
    fed, rows = FedStep(settings) if settings.on_gpu else None, list[Row]()
    for name, samples in photo_sources(settings, folder, say):
        say(f"{name}: measuring for {settings.seconds:g} s")
        rows.append({"name": f"not prepared, {name}", **rate(samples, settings)})
        if fed is not None:
            rows[-1] |= fed.measure(endless(samples, settings), under(say, f"fed from {name}"))
    return rows, note(settings)


def photo_sources(settings: Settings, folder: Path, say: Say) -> Iterator[tuple[str, Samples]]:
    """The same photos as every kind of source, each written when it is needed; on a GPU once for each decoder."""
    photos, side = photos_of(settings.size), decoded_side(settings)
    n, decoders = max(settings.batch_size, min(settings.images, MOST_PHOTOS)), _decoders(settings, say)
    for name, write in WRITERS.items():
        if write in NEED_PYARROW and importlib.util.find_spec("pyarrow") is None:
            continue
        say(f"writing {n:,} photos, {name}")
        write(folder / name, [photos[i % len(photos)] for i in range(n)])
        for decoder, words in decoders:
            yield f"{name}{words}", open_pictures(folder / name, "train", side, decoder=decoder)
        if name == FILES:
            yield f"{name}{CACHED}", _from_cache(folder / name, folder, settings, say)


def given_photos(settings: Settings, folder: Path, say: Say) -> Iterator[tuple[str, Samples]]:
    """The pictures of a folder, or of shards in it, on a GPU once for each decoder; then some from a cache."""
    assert settings.photos is not None
    photos, side = Path(settings.photos).resolve(), decoded_side(settings)  # "." has no name
    for decoder, words in _decoders(settings, say):
        yield f"{photos.name}{words}", open_pictures(photos, "train", side, decoder=decoder)
    yield f"{photos.name}{CACHED}", _from_cache(photos, folder, settings, say)


def _from_cache(photos: Path, folder: Path, settings: Settings, say: Say) -> Samples:
    """Some of the pictures, decoded into a cache before anything is measured."""
    samples = open_pictures(photos, "train", decoded_side(settings), cache=folder / "cache")
    few = samples.limit(min(len(samples), max(settings.batch_size, MOST_PHOTOS)))
    say(f"decoding {len(few):,} photos into a cache")
    for _ in batches(few, torch.arange(len(few)).split(settings.batch_size), "cpu", whole=True):
        pass
    return few


def _decoders(settings: Settings, say: Say) -> tuple[tuple[Decoder, str], ...]:
    """The decoders that work here: the CPU, and the GPU if it can."""
    if not settings.on_gpu:
        return DECODERS[:1]
    try:
        nvjpeg(torch.device(settings.device))
    except ValueError as error:
        say(str(error))
        return DECODERS[:1]
    return DECODERS


def decoded_side(settings: Settings) -> int:
    """The side of the squares that photos are decoded to."""
    return decoded_pixels(settings.config()) or settings.size


def note(settings: Settings) -> str:
    """A note on the photos and how they are decoded."""
    workers, side = cores_of_this_process(), decoded_side(settings)
    if settings.photos is not None:
        n = len(open_pictures(Path(settings.photos)))
        return NOTE_OF_GIVEN.format(n=n, photos=settings.photos, workers=workers, side=side, most=MOST_PHOTOS)
    photos = photos_of(settings.size)
    width, height = Image.open(io.BytesIO(photos[0])).size
    kilobytes = sum(map(len, photos)) / len(photos) / 1e3
    return NOTE.format(width=width, height=height, kilobytes=kilobytes, workers=workers, side=side, most=MOST_PHOTOS)


@cache
def photos_of(size: int) -> list[bytes]:
    """JPEG files of blurred noise with some grain, which take about as many bytes a pixel as photos do."""
    generator, (width, height) = np.random.default_rng(0), (round(WIDTH * size), round(HEIGHT * size))
    found = []
    for number in range(DIFFERENT):
        shape = (height, width) if number % 4 == 3 else (width, height)
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(shape, Image.Resampling.BICUBIC), np.int16)
        grain = generator.normal(0, 12, (*smooth.shape[:2], 1))
        data = io.BytesIO()
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(data, "JPEG", quality=90)
        found.append(data.getvalue())
    return found


def rate(samples: Samples, settings: Settings) -> Row:
    """How many samples load per second when nothing else is done with them."""
    stream = endless(samples, settings)
    try:
        seconds = time_calls(lambda: next(stream), torch.device(settings.device), settings.seconds, warmup=1).median
    finally:
        stream.close()
    bytes_of_batch = settings.batch_size * math.prod(samples.stored.shape[1:])
    return {"samples_per_second": settings.batch_size / seconds, "mb_per_second": bytes_of_batch / seconds / 1e6}


def endless(samples: Samples, settings: Settings) -> Stream:
    """Endless batches of whole pictures, in the order of one epoch after the other."""
    order = full_batches(samples, settings.batch_size, count())
    yield from batches(samples, order, torch.device(settings.device), whole=True)


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
    FILES: _write_files,
    "tar shards": _write_tars,
    "Parquet": _write_parquet,
    "Arrow": _write_arrow,
}
NEED_PYARROW = (_write_parquet, _write_arrow)
