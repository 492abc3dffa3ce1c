"""Files that are either whole or not there, and files that notice when a byte of them has changed.

Writing is: temporary name in the same folder, flush, fsync, rename, fsync of the folder. Once a call has returned, what
it wrote survives a power cut; until then, what was there before does. One writer at a time: two that write the same
path share its temporary name.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

if sys.platform != "win32":
    import fcntl

INCOMPLETE = ".incomplete-"  # begins the name of everything that is not yet, or no longer, to be read
BLANK = b"0" * 64
SEAL = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class Lock:
    """A file that one holder at a time has: BlockingIOError if there is another.

    The system takes it back when the process ends, however it ends, so there is nothing to clean up: the file stays.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self.descriptor)
        except BlockingIOError:
            self.release()
            raise

    def release(self) -> None:
        """Let others have it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.release()


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`, durably, or raise OSError and leave there what was there, with nothing beside it."""
    temporary = path.with_name(INCOMPLETE + path.name)
    with _clean_failure(path, temporary):
        _write_durably(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)


def write_folder_atomically(path: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder `path`, which must not exist, with these files: durably and all of them, or OSError and none."""
    temporary = path.with_name(INCOMPLETE + path.name)
    with _clean_failure(path, temporary):
        make_folder(path.parent)
        _remove(temporary)
        temporary.mkdir()
        for name, data in files.items():
            _write_durably(temporary / name, data)
        sync_folder(temporary)
        os.rename(temporary, path)
        sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Take a folder away as a whole: a process killed halfway leaves `path` complete or gone."""
    temporary = path.with_name(INCOMPLETE + path.name)
    _remove(temporary)
    os.rename(path, temporary)
    _remove(temporary)  # what cannot be removed now is a left-over like any other


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes began to write, or to remove, in `folder`."""
    for path in folder.glob(INCOMPLETE + "*"):
        _remove(path)


def make_folder(path: Path) -> None:
    """Make a folder and the folders above it, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can (Windows cannot open folders)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seal(data: bytes) -> bytes:
    """`data`, which holds `"sha256":"000…"`, with the SHA-256 of `data` in place of the zeros."""
    place = SEAL.search(data)
    if place is None or place[1] != BLANK:
        raise ValueError("there is no blank checksum to fill in")
    return data[: place.start(1)] + sha256(data).hexdigest().encode() + data[place.end(1) :]


def is_sealed(data: bytes) -> bool:
    """Whether `data` is, to the last byte, what `seal` returned."""
    place = SEAL.search(data)
    if place is None:
        return False
    view = memoryview(data)
    digest = sha256(view[: place.start(1)])
    digest.update(BLANK)
    digest.update(view[place.end(1) :])
    return digest.hexdigest().encode() == place[1]


def _lock(descriptor: int) -> None:
    """Lock an open file. Some network disks have no locks (ENOLCK, ENOTSUP, …), nor has Windows: there, nobody does."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _clean_failure(path: Path, temporary: Path) -> Iterator[None]:
    """On any failure nothing stays under the temporary name; those of the system say what could not be written."""
    try:
        yield
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"{path} could not be written: {reason}", error.filename) from error
        raise


def _remove(path: Path) -> None:
    """Remove a file or folder if that can be done; the failure that matters is reported by whoever needs the space."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
