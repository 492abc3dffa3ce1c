"""Pictures in Parquet and Arrow files, as the Hugging Face library `datasets` writes them. Needs pyarrow."""

import hashlib
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "photo")
LABELS = ("label", "labels", "fine_label", "class", "target", "cls")
PARQUET = ".parquet"
# Every process keeps the row groups that an epoch currently reads from, because one picture costs reading its group.
GROUPS_KEPT, LARGEST_GROUP = 8, 1 << 27  # number of groups, bytes
CONTINUED = b"\xff" * 4  # before every message of an Arrow stream; an empty message ends it
STREAM_END = CONTINUED + bytes(4)


@dataclass(frozen=True)
class TablePictures:
    """The pictures in the rows of tables. A part is a row group of a Parquet file, or a record batch of an Arrow file.

    Parquet files are read and decompressed by row group; Arrow files are memory-mapped.
    """

    parts: tuple[tuple[Path, int], ...]
    ends: Int64[np.ndarray, " parts"]
    column: str
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]

    @cached_property
    def shards(self) -> Int64[Tensor, " n"]:
        """The part of each row."""
        return torch.from_numpy(np.repeat(np.arange(len(self.parts)), np.diff(self.ends, prepend=0)))

    def read(self, index: int) -> BytesIO:
        """The bytes of a picture."""
        (file, part), row = self._place(index)
        value = (_row_group if file.suffix == PARQUET else _record_batch)(file, part, self.column)[row]
        found = value["bytes"] if hasattr(value, "keys") else value
        if not found.is_valid:
            raise ValueError("this row holds only the path of a picture, not its bytes")
        return BytesIO(found.as_buffer())

    def file(self, index: int) -> Path:
        """The table."""
        return self._place(index)[0][0]

    def name(self, index: int) -> str:
        """The file and the row."""
        (file, part), row = self._place(index)
        before = sum(np.diff(self.ends, prepend=0)[[where == file and k < part for where, k in self.parts]])
        return f"{file}: row {before + row}"

    def digest(self) -> str:
        """A digest of the names and sizes of files, the number of rows in their parts, and the labels."""
        sizes = {file: file.stat().st_size for file, _ in self.parts}
        names = "\0".join(f"{file.name} {sizes[file]} {part}" for file, part in self.parts)
        found = hashlib.blake2b(f"{self.column}\0{names}".encode("utf-8", "surrogateescape"), digest_size=16)
        found.update(self.ends.tobytes() + self.labels.numpy().tobytes())
        return found.hexdigest()

    def _place(self, index: int) -> tuple[tuple[Path, int], int]:
        part = int(np.searchsorted(self.ends, index, side="right"))
        return self.parts[part], index - (int(self.ends[part - 1]) if part else 0)


def open_tables(files: Sequence[Path]) -> TablePictures:
    """The pictures in some tables, with their labels; the pictures themselves are not read."""
    with _names_file(files[0]):
        schema = _schema(files[0])
    column, label = image_column(schema, files[0]), label_column(schema)
    parts, rows, labels = list[tuple[Path, int]](), list[int](), list[Int64[np.ndarray, " _"]]()
    for file in files:
        with _names_file(file):
            sizes, found = _sizes(file, column), _labels(file, label) if label else None
        parts += [(file, part) for part in range(len(sizes))]
        rows += sizes
        labels.append(np.full(sum(sizes), -1) if found is None else found)
    together = torch.from_numpy(np.concatenate(labels))
    if not len(together):
        raise ValueError(f"{files[0]} and {len(files) - 1} other files hold no rows")
    classes = _class_names(schema, label) or tuple(map(str, range(int(together.max()) + 1)))
    return TablePictures(tuple(parts), np.cumsum(rows, dtype=np.int64), column, together, classes)


@contextmanager
def _names_file(file: Path) -> Iterator[None]:
    """Add the name of the file to Arrow's errors, which lack it."""
    arrow = pyarrow()
    try:
        yield
    except (arrow.ArrowException, OSError, KeyError) as error:
        line = " ".join(str(error).split())
        raise ValueError(f"{file} cannot be read as a table of pictures like the first file: {line}") from error


def image_column(schema: Any, file: Path) -> str:
    """The column of pictures: bytes, or a struct of bytes and a path."""
    arrow = pyarrow()
    binary = lambda kind: arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind)  # noqa: E731
    found = [
        field.name
        for field in schema
        if binary(field.type) or (arrow.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0)
    ]
    named = [name for name in IMAGES if name in found] or found
    if not named:
        raise ValueError(f"{file} has no column of pictures, only {', '.join(schema.names)}: expected image")
    return named[0]


def label_column(schema: Any) -> str | None:
    """The column of integer labels, if there is one."""
    is_integer = pyarrow().types.is_integer
    return next((name for name in LABELS if name in schema.names and is_integer(schema.field(name).type)), None)


def _class_names(schema: Any, label: str | None) -> tuple[str, ...]:
    """The class names in the schema metadata of the library `datasets`; () if there are none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(map(str, features[label]["names"]))
    except (KeyError, TypeError, ValueError):
        return ()


def _labels(file: Path, label: str) -> Int64[np.ndarray, " n"]:
    arrow = pyarrow()
    if file.suffix == PARQUET:
        column = _parquet(file).read([label], use_threads=False)[label]
    else:
        column = arrow.chunked_array([batch[label] for batch in _record_batches(file)])
    return np.asarray(column.cast(arrow.int64()).fill_null(-1).to_numpy(), np.int64)


def _schema(file: Path) -> Any:
    return _parquet(file).schema_arrow if file.suffix == PARQUET else _arrow(file).schema


def _sizes(file: Path, column: str) -> list[int]:
    """The number of rows of every part; KeyError if there is no such column."""
    _schema(file).field(column)
    return _group_rows(file) if file.suffix == PARQUET else [batch.num_rows for batch in _record_batches(file)]


def _group_rows(file: Path) -> list[int]:
    """The number of rows of every row group; ValueError if one is too large to keep in memory."""
    about = _parquet(file).metadata
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    if (largest := max((group.total_byte_size for group in groups), default=0)) > LARGEST_GROUP:
        megabytes = f"{largest // 10**6:,} MB in a row group, more than the limit of {LARGEST_GROUP // 10**6} MB"
        raise ValueError(f"{file} has {megabytes}: write it with fewer rows per group, such as row_group_size=100")
    return [group.num_rows for group in groups]


def _parquet(file: Path) -> Any:
    pyarrow()
    return importlib.import_module("pyarrow.parquet").ParquetFile(file, memory_map=True)


# Opening a file reads the positions of all its row groups, which takes three times as long as reading one group.
_opened_parquet = lru_cache(GROUPS_KEPT)(_parquet)


@lru_cache(GROUPS_KEPT)
def _row_group(file: Path, group: int, column: str) -> Any:
    """The pictures of a row group, read without threads: forked processes do not have Arrow's threads."""
    found = _opened_parquet(file).read_row_group(group, [column], use_threads=False)[column]
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def _record_batch(file: Path, part: int, column: str) -> Any:
    return _record_batches(file)[part][column]


@lru_cache(None)
def _record_batches(file: Path) -> list[Any]:
    """All record batches of a file, which is memory-mapped, not read."""
    opened = _arrow(file)
    if hasattr(opened, "num_record_batches"):
        return [opened.get_batch(part) for part in range(opened.num_record_batches)]
    _check_end(file)
    return list(opened)


def _check_end(file: Path) -> None:
    """ArrowInvalid if a stream was cut between two record batches. Streams from before 2019 have no end marker."""
    with file.open("rb") as stream:
        begin = stream.read(len(CONTINUED))
        stream.seek(-len(STREAM_END), os.SEEK_END)
        if begin == CONTINUED and stream.read() != STREAM_END:
            raise pyarrow().ArrowInvalid("it is truncated, the end of its stream is missing: copy it again")


def _arrow(file: Path) -> Any:
    """Open an Arrow file: `datasets` writes the stream format, other programs may write the file format."""
    arrow = pyarrow()
    mapped = arrow.memory_map(str(file))
    try:
        return arrow.ipc.open_file(mapped)
    except arrow.ArrowInvalid:
        mapped.seek(0)
        return arrow.ipc.open_stream(mapped)


def pyarrow() -> ModuleType:
    """The package pyarrow, an optional dependency."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        how = "pip install 'care-ssl[arrow]'"
        raise ValueError(f"reading Parquet and Arrow files needs the package pyarrow: {how}") from None
