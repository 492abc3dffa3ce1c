"""The image store: a folder with the images of one split, all of one size, as raw bytes that are memory-mapped.

| file               | content                                                                              |
|--------------------|--------------------------------------------------------------------------------------|
| `images-00000.bin` | the first shard; all shards, one after the other, are uint8 [n, 3, height, width]    |
| `labels.bin`       | int64 [n], little-endian                                                             |
| `blocks.sha256`    | the SHA-256 of every block of images and labels, 32 bytes each                       |
| `store.json`       | the header: what the files hold, how they are cut, and the checksums of the last two |

If source files were left out, `skipped.txt` lists them.
"""

import dataclasses
import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from care.atomic_files import BLANK, is_sealed, seal
from care.data.blocks import LABEL_BYTES, StoreFiles
from care.data.mapping import UNIT, map_files
from care.data.readers.files import folders_in
from care.data.samples import Samples

FORMAT, VERSION = "care image store", 3
HEADER, DIGESTS, SKIPPED = "store.json", "blocks.sha256", "skipped.txt"

# The largest header, and the largest numbers in it. A header comes from a file, so nothing in it is trusted.
HEADER_BYTES = 1 << 24
DIGEST_BYTES = 32
LARGEST = {"count": 1 << 32, "height": 1 << 16, "width": 1 << 16, "block_rows": 1 << 32, "shard_bytes": 1 << 48}


@dataclass(frozen=True)
class Header:
    """The content of `store.json`, beside its format, its version and its own checksum.

    Every shard but the last has `shard_bytes` bytes, every block but the last `block_rows` rows. `skipped` lists the
    first 1,000 source files that could not be read, with reasons. `fingerprint` identifies the source files; "" if it
    is not known.
    """

    name: str
    split: str
    count: int
    height: int
    width: int
    classes: list[str]
    shard_bytes: int
    block_rows: int
    blocks_sha256: str
    labels_sha256: str
    source: str
    skipped: list[str]
    fingerprint: str

    def files(self, folder: Path) -> StoreFiles:
        """The files of images and labels."""
        return StoreFiles(folder, 3 * self.height * self.width, self.shard_bytes, self.block_rows)

    def encode(self) -> bytes:
        """The text of `store.json`. Its own checksum comes first, so that no other text can be mistaken for it."""
        record = {"sha256": BLANK.decode(), "format": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        return seal(json.dumps(record, indent=1, separators=(",", ":")).encode())

    @classmethod
    def decode(cls, text: bytes) -> "Header":
        """The header in the text of a `store.json`; ValueError if it is not one, or a byte of it has changed."""
        record = json.loads(text)
        if not isinstance(record, dict) or (record.get("format"), record.get("version")) != (FORMAT, VERSION):
            raise ValueError(f"it is not a {FORMAT} of version {VERSION}")
        if not is_sealed(text):
            raise ValueError("its checksum does not match")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in names:
            if name not in record:
                raise ValueError(f"{name} is missing")
            if (expected := _violated(name, record[name])) is not None:
                raise ValueError(f"{name} is not {expected}")
        return cls(**{name: record[name] for name in names})


def open_store(folder: Path, verify: bool = False, tick: Callable[[int], object] = lambda rows: None) -> Samples:
    """The samples of a store, with memory-mapped images.

    The header, the labels and the sizes of all shards are always checked. `verify` also reads all images and compares
    their checksums, and calls `tick` with the number of images compared so far.
    """
    header = read_header(folder)
    files = header.files(folder)
    for file, size in chain(files.shards(header.count), [(files.labels, LABEL_BYTES * header.count)]):
        _check_size(file, size)
    images = map_files([file for file, _ in files.shards(header.count)])
    labels = np.fromfile(files.labels, "<i8").astype(np.int64, copy=False)
    try:
        samples = Samples(
            _as_tensor(images.reshape(header.count, 3, header.height, header.width)),
            torch.from_numpy(labels),
            tuple(header.classes),
            name=header.name,
            checksum=f"{header.blocks_sha256} {header.labels_sha256}",
        )
    except ValueError as error:
        raise _unusable(files.labels, str(error)) from error
    _check_sha256(files.labels, header.labels_sha256)
    if verify:
        _check_blocks(files, header, tick)
    return samples


def stores_in(folder: Path) -> list[Path]:
    """The readable folders in `folder` that are stores.

    Their contents are not listed, as `Path.glob` would since Python 3.12: there may be a million pictures.
    """
    try:
        names = folders_in(folder)
    except OSError:  # reported when the folder is opened
        return []
    return [folder / name for name in names if os.path.exists(folder / name / HEADER)]


def read_header(folder: Path) -> Header:
    """The header of a store. Its other files are not read."""
    file = folder / HEADER
    if not file.is_file():
        raise ValueError(f"{folder} is not an image store, it has no {HEADER}: care data prepare makes one")
    try:
        if file.stat().st_size > HEADER_BYTES:
            raise ValueError(f"it has more than {HEADER_BYTES} bytes")
        return Header.decode(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _unusable(file, str(error)) from error


def _violated(name: str, value: Any) -> str | None:
    """A description of valid values if `value` is invalid for the field `name` of a header, otherwise None."""
    if name in LARGEST:
        unit, largest = UNIT if name == "shard_bytes" else 1, LARGEST[name]
        if type(value) is int and unit <= value <= largest and value % unit == 0:
            return None
        return f"a whole number from {unit} to {largest}" + (f", a multiple of {unit}" if unit > 1 else "")
    if name in ("classes", "skipped"):
        return None if isinstance(value, list) and all(isinstance(text, str) for text in value) else "a list of strings"
    return None if isinstance(value, str) else "a string"


def _check_size(file: Path, size: int) -> None:
    if not file.is_file():
        raise _unusable(file, "it is missing")
    if file.stat().st_size != size:
        raise _unusable(file, f"it has {file.stat().st_size} bytes instead of {size}")


def _check_sha256(file: Path, sha256: str) -> None:
    with file.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise _unusable(file, f"its checksum is not the one in {HEADER}")


def _check_blocks(files: StoreFiles, header: Header, tick: Callable[[int], object]) -> None:
    """Compare the checksums of all blocks; ValueError that names the shard in which the first damaged one begins."""
    blocks, file = files.blocks(header.count), files.folder / DIGESTS
    _check_size(file, DIGEST_BYTES * len(blocks))
    _check_sha256(file, header.blocks_sha256)
    written = file.read_bytes()
    for block, found in zip(blocks, files.digests(blocks, header.count), strict=True):
        if found != written[DIGEST_BYTES * block : DIGEST_BYTES * (block + 1)].hex():
            shard = files.shard(files.rows(block, header.count).start * files.row_bytes // files.shard_bytes)
            raise _unusable(shard, f"the checksum of a block that begins in it is not the one in {DIGESTS}")
        tick(files.rows(block, header.count).stop)


def _unusable(file: Path, why: str) -> ValueError:
    return ValueError(f"{file} is not usable: {why}; prepare the data again with care data prepare … --overwrite")


def _as_tensor(images: UInt8[np.ndarray, "n 3 h w"]) -> UInt8[Tensor, "n 3 h w"]:
    with warnings.catch_warnings():
        # A private, writable map would be safe to write to, but the system counts all of it as memory in use and
        # refuses stores larger than its memory.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(images)
