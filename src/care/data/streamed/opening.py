"""Open a folder of pictures, in files or in shards, as samples, without decoding or preparing anything."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from care.atomic_files import make_folder
from care.data.readers.folder import folder_splits
from care.data.samples import Samples
from care.data.streamed.encoded import EncodedPictures
from care.data.streamed.files import open_files
from care.data.streamed.pictures import Decoder, StreamedPictures
from care.data.streamed.shards import shard_files
from care.data.streamed.tables import open_tables
from care.data.streamed.tars import open_tars
from care.randomness import shuffled_once

PIXELS = 256  # the default side of decoded squares, as in a store
_OPENED: ContextVar[dict[tuple[Path, str], EncodedPictures] | None] = ContextVar("opened", default=None)
Searching = Callable[[Path], AbstractContextManager[object]]
_SEARCHING: ContextVar[Searching] = ContextVar("searching", default=nullcontext)


@contextmanager
def opened_once(searching: Searching = nullcontext) -> Iterator[None]:
    """In this context, a folder is searched for pictures only once: for a million files that takes seconds.

    Every search takes place within `searching(folder)`.
    """
    tokens = _OPENED.set({}), _SEARCHING.set(searching)
    try:
        yield
    finally:
        _OPENED.reset(tokens[0])
        _SEARCHING.reset(tokens[1])


def open_pictures(
    path: Path,
    split: str = "train",
    pixels: int | None = None,
    workers: int | None = None,
    indexes: Path | None = None,
    decoder: Decoder = "cpu",
    cache: Path | None = None,
) -> Samples:
    """The pictures of a split as samples that `batches` decodes, to squares of `pixels`, with `workers` processes.

    They are numbered in a fixed random order. Their positions in archives are saved in the folder `indexes`. With the
    `decoder` "gpu", batches on a GPU are decoded there. With a folder `cache`, each picture is decoded only once.
    """
    if cache is not None:
        _check_cache(cache, path)
    opened, key = _OPENED.get(), (path.absolute(), split)
    if opened is not None and key in opened:
        encoded = opened[key]
    else:
        with _SEARCHING.get()(path):
            encoded = _encoded(path, split, indexes)
    if opened is not None:
        opened[key] = encoded
    order = shuffled_once(len(encoded.labels))
    pictures = StreamedPictures(encoded, pixels or PIXELS, workers, decoder, cache=cache)
    return Samples(pictures, encoded.labels[order], encoded.classes, name=path.name, rows=order)


def streamed_splits(path: Path) -> tuple[str, ...]:
    """The splits that a folder of pictures or of shards has."""
    with _SEARCHING.get()(path):
        return tuple(shard_files(path)) or folder_splits(path)


def _encoded(path: Path, split: str, indexes: Path | None) -> EncodedPictures:
    if (path / "config.toml").is_file() and (path / "log.jsonl").is_file():
        raise ValueError(f"{path} is the folder of a run, not of data: give the folder of the pictures")
    shards = shard_files(path)
    if not shards:
        return open_files(path, split)
    if split not in shards:
        raise ValueError(f"{path} has no split {split!r}, only {', '.join(shards)}")
    return _in_shards(shards[split], indexes)


def _in_shards(files: list[Path], indexes: Path | None) -> EncodedPictures:
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1:
        raise ValueError(f"{files[0].parent} has shards of several kinds, {', '.join(kinds)}: keep one kind")
    return open_tars(files, indexes) if kinds == [".tar"] else open_tables(files)


def _check_cache(folder: Path, pictures: Path) -> None:
    """Create the folder of a cache; ValueError if it is not writable, or within the folder of the pictures."""
    if not hasattr(os, "pwrite"):
        raise ValueError("a cache needs Linux or macOS: leave it out")
    if folder.resolve().is_relative_to(pictures.resolve()):
        raise ValueError(f"the cache {folder} is inside the folder of the pictures: choose a folder outside")
    try:
        make_folder(folder.absolute())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"the cache {folder} cannot be written: {error.strerror}") from error
