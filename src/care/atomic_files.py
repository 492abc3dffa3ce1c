"""Files and folders that are complete or absent, and files that notice when a byte of them has changed.

Everything is written under a temporary name in the same folder, flushed to the disk (fsync) and renamed, and the folder
is flushed too. Once a write has returned, it survives a power cut; until then, the previous file does. Every write
has its own temporary name: if two processes write the same path, the last one wins.
"""

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

if sys.platform != "win32":
    import fcntl

INCOMPLETE = ".incomplete-"  # prefix of the temporary names of files being written or removed
BLANK = b"0" * 64
SEAL = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class Lock:
    """An exclusive lock on a file, which is created if needed; BlockingIOError if another process holds it.

    The system releases the lock when the process ends, in whatever way. The file stays.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self.descriptor)
        except BlockingIOError:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.release()


@contextmanager
def writing_atomically(path: Path) -> Iterator[Path]:
    """A temporary path at which the block writes a file or makes a folder; it becomes `path` at the end of the block.

    By then all of it is on the disk. If the block or the disk fails, `path` is unchanged and the temporary file is
    removed. An OSError about these files says that `path` could not be written.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        move_durably(temporary, path)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError) and _concerns(error, path):
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"{path} could not be written: {reason}", error.filename) from error
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` durably, or raise OSError and leave `path` unchanged, with no temporary file."""
    with writing_atomically(path) as temporary:
        temporary.write_bytes(data)


def move_durably(temporary: Path, path: Path) -> None:
    """Flush a file or folder to the disk and rename it to `path`, replacing an existing one."""
    _sync(temporary)
    _move(temporary, path)


def append_lines(path: Path, lines: bytes) -> None:
    """Append whole lines to a log that other programs may be reading; OSError if `path` could not be written.

    Not flushed to the disk: after a power cut the last lines may be missing, and the very last one may be cut off.
    """
    try:
        with path.open("ab") as file:
            file.write(lines)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}", str(path)) from error


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: if the process is killed, `path` is complete or gone."""
    temporary = _temporary(path)
    os.rename(path, temporary)
    _remove(temporary)  # what cannot be removed now stays under its temporary name, for `remove_leftovers`


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in `folder`. No other process may be writing there."""
    for path in folder.glob(INCOMPLETE + "*"):
        _remove(path)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk, if the system can (Windows cannot open folders)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seal(data: bytes) -> bytes:
    """`data`, which contains `"sha256":"000…"`, with the zeros replaced by the SHA-256 of `data`."""
    place = SEAL.search(data)
    if place is None or place[1] != BLANK:
        raise ValueError("there is no blank checksum to fill in")
    return data[: place.start(1)] + sha256(data).hexdigest().encode() + data[place.end(1) :]


def is_sealed(data: bytes) -> bool:
    """Whether every byte of `data` is as `seal` returned it."""
    place = SEAL.search(data)
    if place is None:
        return False
    view = memoryview(data)
    digest = sha256(view[: place.start(1)])
    digest.update(BLANK)
    digest.update(view[place.end(1) :])
    return digest.hexdigest().encode() == place[1]


def _lock(descriptor: int) -> None:
    """Lock an open file. Without effect on Windows and on network disks without locks (ENOLCK, ENOTSUP, …)."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def _temporary(path: Path) -> Path:
    """A unique temporary path with the same suffix, by which some programs choose the format of a file."""
    return path.with_name(f"{INCOMPLETE}{secrets.token_hex(4)}-{path.name}")


def _sync(path: Path) -> None:
    """Flush a file, or a folder and the files in it, to the disk."""
    if path.is_dir():
        for file in path.iterdir():
            _sync(file)
        sync_folder(path)
    else:
        with path.open("r+b") as opened:
            os.fsync(opened.fileno())


def _move(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path`, durably.

    Files are replaced in one step. No system call replaces a folder: the old one is renamed first, and renamed back if
    the new one cannot be renamed. A kill between the two renames leaves neither at `path`.
    """
    old = _temporary(path)
    if temporary.is_dir() and path.exists():
        os.rename(path, old)
    try:
        os.replace(temporary, path)
    except BaseException:
        if old.exists():
            os.rename(old, path)
        raise
    sync_folder(path.parent)
    _remove(old)


def _concerns(error: OSError, path: Path) -> bool:
    """Whether the error is about `path`, its folders or its temporary files, and not about another file being read."""
    file = error.filename
    return file is None or path.is_relative_to(file) or Path(file).is_relative_to(path.parent)


def _remove(path: Path) -> None:
    """Remove a file or folder if there is one and it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
