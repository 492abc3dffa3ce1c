"""Picture files in a folder, with a folder per class or without classes."""

import hashlib
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from care.data.readers.files import picture_paths
from care.data.readers.folder import no_pictures, pictures_without_class, split_parts
from care.data.streamed.encoded import Names

# The number of files, evenly spaced, whose sizes are part of the digest, and of threads that look them up. A million
# lookups take ten seconds on a disk, and minutes on a file server.
SIZES, THREADS = 10_000, 16


@dataclass(frozen=True)
class PictureFiles:
    """The pictures of a split of a folder in the order of their paths. A million take some 50 MB of memory."""

    root: Path
    names: Names
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    shards: None = None

    def read(self, index: int) -> Path:
        """The path of a picture: Pillow reads no more of the file than it needs."""
        return self.file(index)

    def file(self, index: int) -> Path:
        """The path of a picture."""
        return self.root / self.names[index]

    def name(self, index: int) -> str:
        """The path of a picture as text."""
        return str(self.file(index))

    def digest(self) -> str:
        """A digest of the names and labels, and of the sizes of up to 10,000 evenly spaced files."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        found = hashlib.blake2b(self.names.text, digest_size=16)
        found.update(self.labels.numpy().tobytes())
        rows = np.linspace(0, len(self.names) - 1, min(SIZES, len(self.names)), dtype=np.int64)
        begin = os.path.join(self.root, "")
        # Most of the time is waiting for the disk, or for a file server.
        with ThreadPoolExecutor(THREADS, "care-sizes") as threads:
            sizes = list(threads.map(_size, (begin + self.names[row] for row in rows)))
        found.update(np.array(sizes, np.int64).tobytes())
        return found.hexdigest()


def _size(file: str) -> int:
    """The size of a file; −1 if it is gone."""
    try:
        return os.stat(file).st_size
    except OSError:
        return -1


def open_files(path: Path, split: str) -> PictureFiles:
    """The pictures of a split, found without opening them."""
    root = path.absolute()
    classes, parts = split_parts(root, split)
    counts, beyond = list[int](), len(os.path.join(root, ""))

    def found() -> Iterator[str]:
        """Names, folder by folder: a list of all names would take ten times the memory of `Names`."""
        for _, part in parts:
            files = picture_paths(part)[0]
            counts.append(len(files))
            yield from (file[beyond:] for file in files)

    names = Names.of(found())
    folder = parts[0][1].parent if classes else parts[0][1]
    if not len(names):
        raise ValueError(no_pictures(folder, classes))
    if loose := pictures_without_class(folder, classes, len(names)):
        warnings.warn(loose, stacklevel=2)
    labels = torch.tensor([label for label, _ in parts]).repeat_interleave(torch.tensor(counts))
    return PictureFiles(root, names, labels, classes)
