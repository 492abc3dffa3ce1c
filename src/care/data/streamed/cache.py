"""A cache of decoded pictures in files: each is written when it is decoded first, and read from then on."""

import errno
import mmap
import os
import struct
import warnings
import zlib
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from shutil import disk_usage

import numpy as np
import PIL
from jaxtyping import Int64, UInt8
from PIL import features
from torch import Tensor

from care.data.readers import decoding
from care.data.streamed.encoded import EncodedPictures

FORMAT = 1  # version of the file format
RECORD = struct.Struct("<8sQ")  # the stamp of the source of a row, and the checksum of the row
LEFT_FREE = 0.1  # the share of a disk that stays free
LITTLE_LEFT = 255  # used like an errno
REASONS = {LITTLE_LEFT: "a tenth of its disk stays free", errno.EBADF: "its files are another user's"}

Row = UInt8[np.ndarray, " bytes"]


class Cache:
    """Rows of batches in two files of a folder: the bytes of all rows (a sparse file), and a record for each row.

    A row is valid if its record has the stamp of the current picture and the checksum of the row. Processes therefore
    read and write without locks, and may be killed at any time: rows that do not match are decoded again.
    """

    def __init__(self, folder: Path, encoded: EncodedPictures, side: int, whole: bool, row_bytes: int) -> None:
        self.folder, self.encoded, self.row_bytes = folder, encoded, row_bytes
        self.decoded_by = f"{decoding.VERSION} {PIL.__version__} {features.version('libjpeg_turbo')}"
        name = f"{encoded.digest()}-{side}-{'whole' if whole else 'center'}-{FORMAT}"
        self.rows, self.records = (_opened(folder / f"{name}.{kind}") for kind in ("rows", "records"))
        self.stopped = mmap.mmap(-1, 1)  # shared with forked processes: not 0 if nothing more is kept, and why
        self.told = False
        # The stamps of shards are taken once: tables stay open, and are read as they were at the start.
        first = [] if encoded.shards is None else np.unique(encoded.shards.numpy(), return_index=True)[1].tolist()
        self.stamps = {file: self._stamp_of(file) for file in {encoded.file(index) for index in first}}

    def __del__(self) -> None:
        for name in ("rows", "records"):
            if hasattr(self, name):
                os.close(getattr(self, name))

    def fill(self, row: Row, index: int, decode: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Fill `row` with the cached picture, or call `decode` to fill it, and cache the result.

        Returns the problems that `decode` returned. If there are any, `row` holds a substitute picture, which is not
        cached.
        """
        file = self.encoded.file(index)
        # Taken before the file is read: if the file changes meanwhile, the cached row has an outdated stamp.
        stamp = self.stamps[file] if file in self.stamps else self._stamp_of(file)
        if stamp is not None and self._read(row, index, stamp):
            return {}
        problems = decode()
        if stamp is not None and not problems and not self.stopped[0]:
            self._keep(row, index, stamp)
        return problems

    def kept(self, indices: Int64[Tensor, " _"] | None = None) -> int:
        """The number of pictures, of all or at `indices`, that have a record; their rows are not checked."""
        size = len(self.encoded.labels) * RECORD.size
        records = np.frombuffer(os.pread(self.records, size, 0).ljust(size, b"\0"), np.int64).reshape(-1, 2)
        return int((records if indices is None else records[indices.numpy()]).any(1).sum())

    def room(self) -> int:
        """The number of bytes that can be written before the disk reaches its limit."""
        disk = disk_usage(self.folder)
        return max(0, int(disk.free - LEFT_FREE * disk.total))

    def tell(self) -> None:
        """Warn, once, that no more pictures are kept."""
        if self.told or not self.stopped[0]:
            return
        self.told, n, number = True, len(self.encoded.labels), self.stopped[0]
        why = REASONS.get(number) or os.strerror(number)
        kept = f"{self.kept():,} of {n:,} pictures are kept, all would take {n * self.row_bytes / 1e9:,.1f} GB"
        free = f"{disk_usage(self.rows).free / 1e9:,.1f} are free"
        warnings.warn(f"caching in {self.folder} stopped ({why}): {kept}, and {free}", stacklevel=2)

    def _stamp_of(self, file: Path) -> bytes | None:
        """A hash that changes with the file and with the versions of its decoders; None if the file is gone."""
        try:
            about = os.stat(file)
        except OSError:
            return None
        text = f"{self.decoded_by}\0{file.absolute()}\0{about.st_size} {about.st_mtime_ns}"
        return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()

    def _read(self, row: Row, index: int, stamp: bytes) -> bool:
        """Read a row; False if it is missing or damaged."""
        try:
            record = os.pread(self.records, RECORD.size, index * RECORD.size)
            if record[: len(stamp)] != stamp:
                return False
            _read_into(row, self.rows, index * self.row_bytes)
        except OSError:
            return False
        return record == RECORD.pack(stamp, zlib.crc32(row.data))

    def _keep(self, row: Row, index: int, stamp: bytes) -> None:
        """Write a row and then its record; after a failure, nothing more is written."""
        try:
            if self.room() < len(row):
                self.stopped[0] = LITTLE_LEFT
                return
            _write(self.rows, row.data, index * self.row_bytes)
            _write(self.records, RECORD.pack(stamp, zlib.crc32(row.data)), index * RECORD.size)
        except OSError as error:
            self.stopped[0] = min(error.errno or errno.EIO, LITTLE_LEFT - 1)


def _opened(file: Path) -> int:
    """Open a file for reading and writing, or a file of another user for reading."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        return os.open(file, os.O_RDONLY)


def _read_into(row: Row, file: int, place: int) -> None:
    """Read the available bytes of a row. Not memory-mapped, because a disk error would end the process."""
    if hasattr(os, "preadv"):
        os.preadv(file, [row.data], place)
    else:
        found = os.pread(file, len(row), place)
        row[: len(found)] = np.frombuffer(found, np.uint8)


def _write(file: int, data: memoryview | bytes, place: int) -> None:
    if os.pwrite(file, data, place) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
