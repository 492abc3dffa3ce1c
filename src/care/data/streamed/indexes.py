"""Indexes of the pictures in large files: computed once, and saved for the next time."""

import hashlib
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from care.atomic_files import make_folder, write_atomically

Columns = dict[str, Shaped[np.ndarray, " _"]]
FORMAT = "care index 2"


def kept_index(files: Sequence[Path], folder: Path | None, find: Callable[[Sequence[Path]], Columns]) -> Columns:
    """`find(files)`, or its saved result for files of the same names, sizes and times of change.

    Without a writable folder, the index is computed every time.
    """
    if folder is None:
        return find(files)
    kept = folder / f"{_fingerprint(files)}.npz"
    try:
        with np.load(kept, allow_pickle=False) as columns:
            return dict(columns)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        found, written = find(files), BytesIO()
    np.savez(written, **found)  # type: ignore[arg-type]
    try:
        make_folder(folder)
        write_atomically(kept, written.getvalue())
    except OSError:
        pass
    return found


def _fingerprint(files: Sequence[Path]) -> str:
    digest = hashlib.sha256(FORMAT.encode())
    for file in files:
        about = file.stat()
        digest.update(f"{file.absolute()}\0{about.st_size} {about.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]
