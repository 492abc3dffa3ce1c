"""Several files memory-mapped as one contiguous array."""

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

UNIT = 1 << 16  # bytes: a multiple of the page size of all systems; every file but the last is a multiple of it
FIXED = 0x10  # MAP_FIXED, for which Python has no constant


def map_files(files: Sequence[Path]) -> UInt8[np.ndarray, " bytes"]:
    """The bytes of all files as one read-only array. Nothing is copied, even if several processes map the files.

    All files but the last must have a multiple of `UNIT` bytes. A row may begin in one file and end in the next.
    """
    if len(files) == 1:
        return np.memmap(files[0], np.uint8, "r")
    if os.name != "posix":
        raise ValueError(f"{files[0].parent} has {len(files)} shards, but Windows maps one: use larger shards")
    sizes = [os.stat(file).st_size for file in files]
    total = sum(sizes)
    # Reserve addresses for all files, then map each file over its share.
    start = _mmap(None, total, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    found = (ctypes.c_uint8 * total).from_address(start)
    weakref.finalize(found, _munmap, start, total)
    for file, size, before in zip(files, sizes, np.cumsum([0, *sizes]).tolist(), strict=False):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            _mmap(start + before, size, mmap.PROT_READ, mmap.MAP_SHARED | FIXED, descriptor)
        finally:
            os.close(descriptor)
    array = np.frombuffer(memoryview(found), np.uint8)
    array.flags.writeable = False
    return array


def _mmap(address: int | None, size: int, protection: int, flags: int, descriptor: int) -> int:
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (ctypes.c_int,), ctypes.c_int64)
    found = call(address, size, protection, flags, descriptor, 0)
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"a store cannot be mapped: {os.strerror(ctypes.get_errno())}")
    assert isinstance(found, int)
    return found


def _munmap(address: int, size: int) -> None:
    call = ctypes.CDLL(None).munmap
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    call(address, size)
