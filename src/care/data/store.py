"""The store: a folder of pictures of one size as raw bytes, which are mapped and never parsed.

It holds `images.bin` (uint8, n × 3 × height × width), `labels.bin` (int64, little-endian) and `store.json`, which says
what is in them. It is written under another name and renamed when it is complete: a store is whole or not there.
"""

import dataclasses
import hashlib
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from care.data.readers.source import Example, Source, Unreadable
from care.data.samples import Samples

FORMAT, VERSION = "care image store", 1
HEADER, IMAGES, LABELS = "store.json", "images.bin", "labels.bin"
BLANK = "0" * 64
MOST_NAMED = 20  # unreadable files in one message

# The most that a header may claim. It comes from a file, so nothing it says is believed.
HEADER_BYTES, LARGEST_COUNT, LARGEST_SIDE = 1 << 24, 1 << 32, 1 << 16


@dataclass(frozen=True)
class Header:
    """What `store.json` holds. `sha256` goes by file name; `skipped` are the files that could not be read, and why.

    The checksum of `store.json` itself is made with zeros in its own place.
    """

    name: str
    split: str
    count: int
    height: int
    width: int
    classes: list[str]
    sha256: dict[str, str]
    source: str
    skipped: list[str]

    @property
    def sizes(self) -> dict[str, int]:
        """How many bytes each file must have."""
        return {IMAGES: self.count * 3 * self.height * self.width, LABELS: 8 * self.count}


def open_store(folder: Path, verify: bool = False) -> Samples:
    """The samples of a store, mapped. Sizes, header and labels are always checked; `verify` reads all pictures too."""
    header = read_header(folder)
    for file, size in header.sizes.items():
        _check_size(folder / file, size)
    images = np.memmap(folder / IMAGES, np.uint8, "r", shape=(header.count, 3, header.height, header.width))
    labels = np.fromfile(folder / LABELS, "<i8").astype(np.int64, copy=False)
    try:
        samples = Samples(_as_tensor(images), torch.from_numpy(labels), tuple(header.classes), name=header.name)
    except ValueError as error:
        raise _broken(folder / LABELS, str(error)) from error
    for file in (LABELS, IMAGES) if verify else (LABELS,):
        _check_sum(folder / file, header.sha256[file])
    return samples


def write_store(
    folder: Path,
    name: str,
    split: str,
    source: Source,
    skip: int = 0,
    overwrite: bool = False,
    tick: Callable[[int], object] = lambda step: None,
) -> Header:
    """Write everything that `source` gives to the store `folder`; `tick(1)` is called after each example.

    Up to `skip` unreadable files are left out and recorded in the header; one more is an error, which names the others
    too: everything is read on, until there are 20 beyond `skip`. Where there is an error, nothing is left behind, and a
    store that was there before is still there.
    """
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists; --overwrite replaces it")
    with _complete_or_absent(folder) as partial:
        with (partial / IMAGES).open("wb") as images, (partial / LABELS).open("wb") as labels:
            count, sums, skipped = _write_examples(source, images, labels, skip, tick)
        sums[HEADER] = BLANK
        header = Header(
            name, split, count, source.height, source.width, list(source.classes), sums, source.description, skipped
        )
        header.sha256[HEADER] = _header_sum(_header_text(header), BLANK)
        (partial / HEADER).write_bytes(_header_text(header))
    return header


def read_header(folder: Path) -> Header:
    """What a store says of itself. Its other files are not looked at."""
    file = folder / HEADER
    if not file.is_file():
        raise ValueError(f"{folder} is not an image store, it has no {HEADER}: care data prepare makes one")
    try:
        if file.stat().st_size > HEADER_BYTES:
            raise ValueError(f"it has more than {HEADER_BYTES} bytes")
        text = file.read_bytes()
        header = _parse(json.loads(text))
        own = header.sha256.get(HEADER)  # stores of care 0.1 have none
        if own is not None and _header_sum(text, own) != own:
            raise ValueError("its checksum is not the one it was written with")
        return header
    except (ValueError, RecursionError) as error:
        raise _broken(file, str(error)) from error


def _header_text(header: Header) -> bytes:
    return json.dumps({"format": FORMAT, "version": VERSION, **dataclasses.asdict(header)}, indent=1).encode() + b"\n"


def _header_sum(text: bytes, own: str) -> str:
    """The checksum of a header whose checksum, `own`, is in it."""
    before, _, after = text.rpartition(f'"{HEADER}": "{own}"'.encode())
    return hashlib.sha256(before + BLANK.encode() + after).hexdigest()


def _parse(read: Any) -> Header:
    if not isinstance(read, dict) or (read.get("format"), read.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"it does not say that it is a {FORMAT} of version {VERSION}")
    for entry in dataclasses.fields(Header):
        if entry.name not in read:
            raise ValueError(f"{entry.name} is missing")
        if (wrong := _wrong(entry.name, read[entry.name])) is not None:
            raise ValueError(f"{entry.name} is not {wrong}")
    return Header(**{entry.name: read[entry.name] for entry in dataclasses.fields(Header)})


def _wrong(name: str, value: Any) -> str | None:
    """What an entry of the header should be and is not."""
    if name in ("count", "height", "width"):
        most = LARGEST_COUNT if name == "count" else LARGEST_SIDE
        return None if type(value) is int and 1 <= value <= most else f"a whole number from 1 to {most}"
    if name in ("classes", "skipped"):
        return None if isinstance(value, list) and all(isinstance(text, str) for text in value) else "a list of texts"
    if name == "sha256":
        whole = isinstance(value, dict) and {IMAGES, LABELS} <= value.keys() <= {IMAGES, LABELS, HEADER}
        sums = whole and all(isinstance(text, str) for text in value.values())
        return None if sums else f"a checksum each for {IMAGES}, {LABELS} and {HEADER}"
    return None if isinstance(value, str) else "a text"


def _check_size(file: Path, size: int) -> None:
    if not file.is_file():
        raise _broken(file, "it is missing")
    if file.stat().st_size != size:
        raise _broken(file, f"it has {file.stat().st_size} bytes instead of {size}")


def _check_sum(file: Path, sha256: str) -> None:
    with file.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise _broken(file, f"its checksum is not the one it was written with, which is in {HEADER}")


def _broken(file: Path, why: str) -> ValueError:
    return ValueError(f"{file} is not usable: {why}; prepare the data again with care data prepare … --overwrite")


def _as_tensor(images: UInt8[np.ndarray, "n 3 h w"]) -> UInt8[Tensor, "n 3 h w"]:
    with warnings.catch_warnings():
        # A private, writable map would be safe to write to, but the system counts all of it as memory in use and
        # refuses stores larger than its memory.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(images)


@contextmanager
def _complete_or_absent(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place when the block ends well and is deleted when it does not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Names that begin with a dot are no names of splits: what a kill leaves behind is not taken for a store.
    partial, replaced = (folder.with_name(f".{folder.name}.{kind}-{secrets.token_hex(4)}") for kind in ("part", "old"))
    partial.mkdir()
    try:
        yield partial
        for path in (*partial.iterdir(), partial):
            _flush_to_disk(path)
        if folder.exists():
            folder.rename(replaced)
        partial.rename(folder)
        _flush_to_disk(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_examples(
    source: Source, images: IO[bytes], labels: IO[bytes], skip: int, tick: Callable[[int], object]
) -> tuple[int, dict[str, str], list[str]]:
    """How many were written, the checksums of both files, and what was skipped."""
    sums = {IMAGES: hashlib.sha256(), LABELS: hashlib.sha256()}
    count, skipped = 0, list[str]()
    for example in source.examples:
        tick(1)
        if isinstance(example, Unreadable):
            skipped.append(f"{example.file}: {example.reason}")
            if len(skipped) == skip + MOST_NAMED:
                raise ValueError(_unreadable(skipped, to_the_end=False))
            continue
        if len(skipped) > skip:  # nothing will come of it: the others are read to find out which cannot be
            continue
        for file, name, data in zip((images, labels), sums, _encode(example, source), strict=True):
            file.write(data)
            sums[name].update(data)
        count += 1
    if len(skipped) > skip:
        raise ValueError(_unreadable(skipped, to_the_end=True))
    if count == 0:
        raise ValueError(f"{source.description}: there is not a single picture")
    return count, {name: digest.hexdigest() for name, digest in sums.items()}, skipped


def _encode(example: Example, source: Source) -> tuple[bytes, bytes]:
    shape = (3, source.height, source.width)
    if example.image.shape != shape or example.image.dtype != np.uint8:
        raise ValueError(f"an image is {example.image.dtype} {example.image.shape} instead of uint8 {shape}")
    if not -1 <= example.label < len(source.classes):
        raise ValueError(f"{source.description}: label {example.label}, but there are {len(source.classes)} classes")
    return example.image.tobytes(), example.label.to_bytes(8, "little", signed=True)


def _unreadable(bad: list[str], to_the_end: bool) -> str:
    """Which files were unreadable, and how many must be skipped to go on."""
    count, others = len(bad), len(bad) - MOST_NAMED
    files = f"{count} unreadable file{'s' * (count > 1)}"
    named = "; ".join(bad[:MOST_NAMED]) + (f"; and {others} other{'s' * (others > 1)}" if others > 0 else "")
    if not to_the_end:
        return f"at least {files}: {named}; reading stopped there, --skip {count} or more leaves them out"
    return f"{files}: {named}; --skip {count} leaves {'them' if count > 1 else 'it'} out"
