"""Write the examples of a reader to an image store, a folder that is complete or absent."""

import math
import shutil
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import count, islice
from pathlib import Path

import numpy as np

from care.atomic_files import make_folder
from care.data.blocks import SHARD_BYTES, StoreFiles, rows_of_a_block, whole_units
from care.data.partial_store import GAP, Block, PartialStore
from care.data.pool import Pool, all_cores
from care.data.readers.source import DataSource, Example, Indexed, Unreadable, default_skip
from care.data.store import Header, open_store, read_header

MORE = 20  # unreadable files found beyond the allowed number before stopping
MOST_RECORDED = 1000  # skipped files recorded in the header


class TooManyUnreadable(ValueError):
    """More files than allowed cannot be read. `skipped` lists them with reasons, as does `file`, if there is one."""

    def __init__(self, message: str, skipped: list[str], file: Path | None) -> None:
        super().__init__(message)
        self.skipped, self.file = skipped, file


def is_prepared(folder: Path, source: DataSource, verify: bool = False) -> bool:
    """Whether there is a store made from the same files with the same settings; `verify` compares checksums."""
    try:
        same = read_header(folder).fingerprint == _fingerprint(source) != ""
        return same and len(open_store(folder, verify)) > 0
    except ValueError:
        return False


def write_store(
    folder: Path,
    name: str,
    split: str,
    source: DataSource,
    skip: int | None = None,
    overwrite: bool = False,
    tick: Callable[[int], object] = lambda read: None,
    say: Callable[[str], object] = lambda line: None,
    workers: int | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> Header:
    """Write all examples of `source` to the store `folder`, in shards of about `shard_bytes`.

    `Indexed` examples are read by `workers` processes, by default one per core; the store does not depend on their
    number. Up to `skip` unreadable files, by default 1 % of all and at least 10, are left out and recorded in the
    header. More are an error, raised once 20 more are found or all files are read. After an error there is no new
    store, and an earlier one is unchanged; if the examples are `Indexed`, the written part is kept, and the next call
    continues from there. `tick` is called with the number of examples read so far, `say` with messages for the user.
    """
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists: `overwrite` replaces it")
    make_folder(folder.parent)
    fingerprint, row_bytes = _fingerprint(source), 3 * source.height * source.width
    files = StoreFiles(folder, row_bytes, whole_units(shard_bytes), rows_of_a_block(source.expected, row_bytes))
    allowed = default_skip(source.expected) if skip is None else skip
    with PartialStore(folder, fingerprint, files, source.expected, say) as partial:
        _check_room(partial)
        _write_blocks(source, partial, allowed, tick, workers or all_cores())
        rows, blocks_sha256, labels_sha256 = partial.close_gaps()
        header = Header(
            name=name,
            split=split,
            count=rows,
            height=source.height,
            width=source.width,
            classes=list(source.classes),
            shard_bytes=files.shard_bytes,
            block_rows=files.block_rows,
            blocks_sha256=blocks_sha256,
            labels_sha256=labels_sha256,
            source=source.description,
            skipped=partial.skipped[:MOST_RECORDED],
            fingerprint=fingerprint,
        )
        partial.finish(header)
    return header


def _fingerprint(source: DataSource) -> str:
    return source.examples.fingerprint() if isinstance(source.examples, Indexed) else ""


def _check_room(partial: PartialStore) -> None:
    """OSError if the disk reports too little free space for the missing bytes."""
    disk = shutil.disk_usage(partial.folder)
    if disk.total > 0 and disk.free < partial.missing_bytes:
        room = f"it needs {partial.missing_bytes:,} more bytes, but {disk.free:,} are free"
        raise OSError(f"{partial.store} does not fit on its disk: {room}; make room, or choose another folder")


def _write_blocks(
    source: DataSource, partial: PartialStore, allowed: int, tick: Callable[[int], object], workers: int
) -> None:
    tick(partial.read)
    with closing(
        _by_processes(source, partial, workers) if partial.fingerprint else _one_by_one(source, partial)
    ) as blocks:
        for number, block in blocks:
            partial.add(number, block)
            tick(partial.read)
            if partial.unreadable >= allowed + MORE:
                break
    if partial.unreadable > allowed:
        raise _too_many(partial, allowed)
    if partial.read == partial.unreadable:
        raise ValueError(f"{source.description}: there are no images")


def _by_processes(source: DataSource, partial: PartialStore, workers: int) -> Generator[tuple[int, Block], None, None]:
    """The missing blocks, each read and written by one process."""
    examples, files = source.examples, partial.files
    assert isinstance(examples, Indexed)
    missing = [number for number in files.blocks(len(examples)) if number not in partial.journal.blocks]

    def make(number: int) -> Block:
        rows = files.rows(number, len(examples))
        return _write(files, rows.start, [examples[row] for row in rows], source)

    with Pool(make, min(workers, max(1, len(missing)))) as pool, partial.writing():
        yield from zip(missing, pool.in_order(missing), strict=True)


def _one_by_one(source: DataSource, partial: PartialStore) -> Generator[tuple[int, Block], None, None]:
    """The blocks of examples that can only be read in order."""
    examples, rows = iter(source.examples), partial.files.block_rows
    for number in count():
        if not (some := list(islice(examples, rows))):
            return
        with partial.writing():
            block = _write(partial.files, number * rows, some, source)
        yield number, block


def _write(files: StoreFiles, first: int, examples: list[Example | Unreadable], source: DataSource) -> Block:
    """Write examples to the rows from `first` on."""
    images, labels = zip(*(_encode(example, source) for example in examples), strict=True)
    sha256 = files.write(first, b"".join(images), b"".join(labels))
    skipped = [f"{example.file}: {example.reason}" for example in examples if isinstance(example, Unreadable)]
    return Block(len(examples), sha256, skipped)


def _encode(example: Example | Unreadable, source: DataSource) -> tuple[bytes, bytes]:
    """The bytes of the image and of the label."""
    shape = (3, source.height, source.width)
    if isinstance(example, Unreadable):
        return bytes(math.prod(shape)), _label(GAP)
    if example.image.shape != shape or example.image.dtype != np.uint8:
        raise ValueError(f"an image is {example.image.dtype} {example.image.shape} instead of uint8 {shape}")
    if not -1 <= example.label < len(source.classes):
        raise ValueError(f"{source.description}: label {example.label}, but there are {len(source.classes)} classes")
    return example.image.tobytes(), _label(example.label)


def _label(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def _too_many(partial: PartialStore, allowed: int) -> TooManyUnreadable:
    found, skipped = partial.unreadable, partial.skipped
    of = f"{partial.read:,} files" if partial.read == partial.expected else f"the first {partial.read:,} files"
    skip = f"`skip` {found} leaves {'them' if found > 1 else 'it'} out"
    after = " and goes on where this stopped" if partial.fingerprint else ""
    most = f"at most {allowed:,} may be left out"
    message = f"{partial.store}: {found:,} of {of} cannot be read, and {most}; {skip}{after}"
    return TooManyUnreadable(message, skipped, partial.list_skipped() if partial.fingerprint else None)
