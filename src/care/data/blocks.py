"""The files of a store, and the blocks in which they are written and checked.

All images form one long array of bytes. It is cut into shards, files of equal size whose borders may lie within an
image, and into blocks of whole rows: a block is written by one process, and has its own checksum.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from care.data.mapping import UNIT
from care.data.pool import all_cores

LABELS, LABEL_BYTES = "labels.bin", 8
SHARD_BYTES = 1 << 30
# A block has 1/4096 of the rows, but at least 16 (processes share few photos) and at most 16 MB (each holds one).
BLOCKS, FEWEST_ROWS, MOST_BYTES = 4096, 16, 1 << 24


def rows_of_a_block(rows: int, row_bytes: int) -> int:
    """The number of rows of a block, in a store of `rows` rows."""
    return max(1, min(MOST_BYTES // row_bytes, max(FEWEST_ROWS, rows // BLOCKS)))


def whole_units(shard_bytes: int) -> int:
    """The size nearest to `shard_bytes` at which shards can be memory-mapped."""
    return max(1, round(shard_bytes / UNIT)) * UNIT


@dataclass(frozen=True)
class StoreFiles:
    """Image i has `row_bytes` bytes, from i · `row_bytes` on, in shards of `shard_bytes`; labels are in one file."""

    folder: Path
    row_bytes: int
    shard_bytes: int
    block_rows: int

    @property
    def labels(self) -> Path:
        """The file of all labels."""
        return self.folder / LABELS

    def shard(self, number: int) -> Path:
        """A file of images."""
        return self.folder / f"images-{number:05d}.bin"

    def shards(self, rows: int) -> Iterator[tuple[Path, int]]:
        """(file, size in bytes) of every shard of a store with `rows` rows."""
        for start in range(0, rows * self.row_bytes, self.shard_bytes):
            yield self.shard(start // self.shard_bytes), min(self.shard_bytes, rows * self.row_bytes - start)

    def blocks(self, rows: int) -> range:
        """The numbers of the blocks of a store with `rows` rows."""
        return range(-(-rows // self.block_rows))

    def rows(self, block: int, rows: int) -> range:
        """The rows of a block, in a store with `rows` rows."""
        return range(block * self.block_rows, min((block + 1) * self.block_rows, rows))

    def write(self, first: int, images: bytes, labels: bytes) -> str:
        """Write rows from row `first` on, and return their SHA-256."""
        for file, at, piece in self._pieces(first * self.row_bytes, len(images)):
            _write(file, at, images[piece])
        _write(self.labels, first * LABEL_BYTES, labels)
        return _sha256(images, labels)

    def read(self, rows: range) -> tuple[bytes, bytes]:
        """The images and the labels of some rows; OSError if there are fewer."""
        pieces = self._pieces(rows.start * self.row_bytes, len(rows) * self.row_bytes)
        images = b"".join(_read(file, at, piece.stop - piece.start) for file, at, piece in pieces)
        return images, _read(self.labels, rows.start * LABEL_BYTES, len(rows) * LABEL_BYTES)

    def digests(self, blocks: Iterable[int], rows: int) -> Iterator[str]:
        """The SHA-256 of the images and labels of each block, computed on all cores; "" for an incomplete block."""
        with ThreadPoolExecutor(all_cores(), "care-digests") as threads:
            yield from threads.map(lambda block: self._digest(self.rows(block, rows)), blocks)

    def _digest(self, rows: range) -> str:
        try:
            return _sha256(*self.read(rows))
        except OSError:
            return ""

    def truncate(self, rows: int) -> None:
        """Remove everything after the first `rows` rows."""
        kept = dict(self.shards(rows))
        for file in self.folder.glob("images-*.bin"):
            if file not in kept:
                file.unlink()
        for file, size in (*kept.items(), (self.labels, rows * LABEL_BYTES)):
            os.truncate(file, size)

    def _pieces(self, start: int, size: int) -> Iterator[tuple[Path, int, slice]]:
        """(file, position in it, slice of the bytes) for a range of bytes, which may span several shards."""
        done = 0
        while done < size:
            shard, at = divmod(start + done, self.shard_bytes)
            end = min(size, done + self.shard_bytes - at)
            yield self.shard(shard), at, slice(done, end)
            done = end


def _sha256(images: bytes, labels: bytes) -> str:
    digest = hashlib.sha256(images)
    digest.update(labels)
    return digest.hexdigest()


def _write(file: Path, at: int, data: bytes) -> None:
    file.touch()
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def _read(file: Path, at: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(at)
        found = opened.read(size)
    if len(found) != size:
        raise OSError(f"{file} ends before byte {at + size}")
    return found
