"""Read pickled dictionaries of numpy arrays without running any code that they name.

A pickle is a program that calls functions by name. Here the few functions in pickled numpy arrays are recorded instead
of called, any other name is an error, and the arrays are built from the records afterwards.
"""

import pickle
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
from jaxtyping import UInt8

RECONSTRUCT, FROM_BUFFER, ARRAY, DTYPE = "_reconstruct", "_frombuffer", "ndarray", "dtype"

# numpy 2 moved its core to numpy._core; the official files are older.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): FROM_BUFFER,
    ("numpy", "ndarray"): ARRAY,
    ("numpy", "dtype"): DTYPE,
}


@dataclass(eq=False)
class Recorded:
    """A function named in a pickle, or a recorded call of one."""

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __call__(self, *arguments: Any) -> "Recorded":
        """Record a call."""
        return Recorded(self.name, arguments)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class RecordingUnpickler(pickle.Unpickler):
    """An unpickler that records the names in `ALLOWED` and refuses all others."""

    def find_class(self, module: str, name: str) -> Recorded:
        """A record in place of the named function."""
        if (module, name) not in ALLOWED:
            raise ValueError(f"it names {module}.{name}, which no data set needs")
        return Recorded(ALLOWED[module, name])


def read_pickle(file: BufferedReader, described: str) -> dict[str, Any]:
    """The dictionary in `file`, named `described` in errors. Keys are text; `as_bytes` turns records into arrays."""
    try:
        read = RecordingUnpickler(file, encoding="bytes").load()
    except Exception as error:  # a broken or hostile pickle can raise anything
        raise ValueError(f"{described} is not a pickle of plain arrays: {error}") from error
    if not isinstance(read, dict):
        raise ValueError(f"{described} is not a pickle of plain arrays: it holds no dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in read.items()}


def as_bytes(recorded: Any, columns: int, described: str) -> UInt8[np.ndarray, "rows {columns}"]:
    """The uint8 array [rows, columns] that was recorded; anything else is an error."""
    try:
        shape, kind, order, data = _parts(recorded)
        if kind not in (b"u1", "u1") or len(shape) != 2 or shape[1] != columns or order not in ("C", "F"):
            raise ValueError(f"it has shape {shape}")
        return np.frombuffer(data, np.uint8).reshape(shape, order=order)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{described} holds no array of bytes with {columns} columns: {error}") from error


def _parts(recorded: Any) -> tuple[tuple[int, ...], Any, Any, bytes]:
    """Shape, type, order and data of an array, from the recorded call of numpy."""
    if isinstance(recorded, Recorded) and recorded.name == RECONSTRUCT:
        _, shape, dtype, fortran, data = recorded.state
        order = "F" if fortran else "C"
    elif isinstance(recorded, Recorded) and recorded.name == FROM_BUFFER:
        data, dtype, shape, order = recorded.arguments[:4]
    else:
        raise ValueError("it is not an array")
    if not (isinstance(dtype, Recorded) and dtype.name == DTYPE and isinstance(data, bytes | bytearray)):
        raise ValueError("it is not an array of numbers")
    return shape, dtype.arguments[0], order, bytes(data)
