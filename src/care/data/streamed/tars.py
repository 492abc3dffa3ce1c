"""Pictures in tar archives, as WebDataset writes them: members with the same name up to the first dot form a sample.

`0001.jpg` and `0001.cls` are a picture and its label, a number. Other kinds of members are ignored, and so is a second
picture of a sample, such as the mask `0001.seg.png`.
"""

import hashlib
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from care.data.pool import Pool, cores_of_this_process
from care.data.readers.files import ENDINGS
from care.data.streamed.encoded import Names
from care.data.streamed.indexes import Columns, kept_index

LABEL = ".cls"
MOST_CLASSES = 1 << 20
MANY_ARCHIVES = 8
PROCESSES_PER_CORE = 2  # processes that read the headers of archives; they mostly wait for the disk


@dataclass(frozen=True)
class TarPictures:
    """The pictures in tar archives, in order, with the position and the size in bytes of each."""

    files: tuple[Path, ...]
    names: Names
    starts: Int64[np.ndarray, " n"]
    sizes: Int64[np.ndarray, " n"]
    shards: Int64[Tensor, " n"]
    labels: Int64[Tensor, " n"]

    @property
    def classes(self) -> tuple[str, ...]:
        """Numbers: archives do not name their classes."""
        return tuple(map(str, range(int(self.labels.max()) + 1)))

    def read(self, index: int) -> BytesIO:
        """The bytes of a picture, read without the rest of the archive."""
        with self.file(index).open("rb") as file:
            file.seek(int(self.starts[index]))
            return BytesIO(file.read(int(self.sizes[index])))

    def file(self, index: int) -> Path:
        """The archive."""
        return self.files[int(self.shards[index])]

    def name(self, index: int) -> str:
        """The archive and the member."""
        return f"{self.file(index)}: {self.names[index]}"

    def digest(self) -> str:
        """A digest of the names, sizes, positions and labels of the pictures."""
        found = hashlib.blake2b(self.names.text, digest_size=16)
        for array in (self.starts, self.sizes, self.labels.numpy()):
            found.update(array.tobytes())
        return found.hexdigest()


def open_tars(files: Sequence[Path], indexes: Path | None = None) -> TarPictures:
    """The pictures in some archives. Their positions are found once, and saved in the folder `indexes`."""
    found = kept_index(files, indexes, _indexed)
    labels = torch.from_numpy(found["labels"])
    if not len(labels):
        raise ValueError(f"{files[0]} and {len(files) - 1} other archives hold no pictures")
    if labels.max() >= MOST_CLASSES:
        raise ValueError(f"{files[0].parent} has the label {labels.max()}: at most {MOST_CLASSES:,} classes are read")
    names, shards = Names(found["names"].tobytes(), found["ends"]), torch.from_numpy(found["shards"])
    return TarPictures(tuple(files), names, found["starts"], found["sizes"], shards, labels)


def _indexed(files: Sequence[Path]) -> Columns:
    """The index of all archives; many archives are read by several processes."""
    if len(files) < MANY_ARCHIVES:
        parts = list(map(_members, files))
    else:
        with Pool(_members, min(len(files), PROCESSES_PER_CORE * cores_of_this_process())) as pool:
            parts = list(pool.in_order(files))
    names = Names.of([name for part in parts for name, *_ in part])
    columns = np.array([row for part in parts for _, *row in part], np.int64).reshape(-1, 3)
    return {
        "names": np.frombuffer(names.text, np.uint8),
        "ends": names.ends,
        "starts": columns[:, 0].copy(),
        "sizes": columns[:, 1].copy(),
        "labels": columns[:, 2].copy(),
        "shards": np.repeat(np.arange(len(parts)), [len(part) for part in parts]).astype(np.int64),
    }


def _members(file: Path) -> list[tuple[str, int, int, int]]:
    """(name, first byte, bytes, label) of every picture in an archive."""
    pictures, texts = list[tuple[str, int, int]](), dict[str, tuple[str, bytes]]()
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                ending = os.path.splitext(member.name)[1].lower()
                if member.isreg() and ending in ENDINGS:
                    pictures.append((member.name, member.offset_data, member.size))
                elif member.isreg() and ending == LABEL:
                    opened = archive.extractfile(member)
                    texts[_key(member.name)] = member.name, opened.read(32) if opened else b"-1"
            _check_end(archive)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as a tar archive of pictures: {error}") from error
    labels = {key: _label(file, name, text) for key, (name, text) in texts.items()}
    main = {_key(name) for name, *_ in pictures if _is_main(name)}
    chosen = (row for row in pictures if _is_main(row[0]) or _key(row[0]) not in main)
    return [(name, start, size, labels.get(_key(name), -1)) for name, start, size in chosen]


def _label(file: Path, name: str, text: bytes) -> int:
    """The label in a member; ValueError if it is no number."""
    try:
        return int(text)
    except ValueError:
        shown = text.decode("utf-8", "replace").strip()
        raise ValueError(f"{file}: the label in {name} is {shown!r}: write the number of its class, from 0") from None


def _is_main(name: str) -> bool:
    """Whether only the file ending follows the key, as in `0001.jpg`."""
    return name.rpartition("/")[2].count(".") == 1


def _check_end(archive: tarfile.TarFile) -> None:
    """ValueError if no block of zeros follows the last member: the archive was cut between two members."""
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise ValueError("it is truncated, the blocks of zeros at its end are missing: copy it again")


def _key(name: str) -> str:
    """The key that the members of a sample share: the path up to the first dot of the file's name."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{file.partition('.')[0]}"
