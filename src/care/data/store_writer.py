"""Writing an image store: from the examples of a reader to a folder that is complete or absent."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from care.atomic_files import make_folder, writing_atomically
from care.data.readers.source import Example, Source, Unreadable
from care.data.store import HEADER, IMAGES, LABELS, Header

MOST_NAMED = 20  # unreadable files in one message


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

    Up to `skip` unreadable files are left out and recorded in the header. One more is an error, which names the others
    too: reading goes on until 20 more than `skip` are found. After an error there is no new store, and one that was
    there before is still there.
    """
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists; --overwrite replaces it")
    make_folder(folder.parent)
    with writing_atomically(folder) as temporary:
        temporary.mkdir()
        with (temporary / IMAGES).open("wb") as images, (temporary / LABELS).open("wb") as labels:
            count, (images_sha256, labels_sha256), skipped = _write_examples(source, images, labels, skip, tick)
        header = Header(
            name=name,
            split=split,
            count=count,
            height=source.height,
            width=source.width,
            classes=list(source.classes),
            images_sha256=images_sha256,
            labels_sha256=labels_sha256,
            source=source.description,
            skipped=skipped,
        )
        (temporary / HEADER).write_bytes(header.encode())
    return header


def _write_examples(
    source: Source, images: IO[bytes], labels: IO[bytes], skip: int, tick: Callable[[int], object]
) -> tuple[int, list[str], list[str]]:
    """(number of examples written, SHA-256 of images and labels, files that were skipped and why)."""
    digests = hashlib.sha256(), hashlib.sha256()
    count, skipped = 0, list[str]()
    for example in source.examples:
        tick(1)
        if isinstance(example, Unreadable):
            skipped.append(f"{example.file}: {example.reason}")
            if len(skipped) == skip + MOST_NAMED:
                raise ValueError(_unreadable(skipped, to_the_end=False))
        elif len(skipped) <= skip:  # otherwise the rest is only read to find the other unreadable files
            for file, digest, data in zip((images, labels), digests, _encode(example, source), strict=True):
                file.write(data)
                digest.update(data)
            count += 1
    if len(skipped) > skip:
        raise ValueError(_unreadable(skipped, to_the_end=True))
    if count == 0:
        raise ValueError(f"{source.description}: there is not a single image")
    return count, [digest.hexdigest() for digest in digests], skipped


def _encode(example: Example, source: Source) -> tuple[bytes, bytes]:
    """The bytes of the image and of the label."""
    shape = (3, source.height, source.width)
    if example.image.shape != shape or example.image.dtype != np.uint8:
        raise ValueError(f"an image is {example.image.dtype} {example.image.shape} instead of uint8 {shape}")
    if not -1 <= example.label < len(source.classes):
        raise ValueError(f"{source.description}: label {example.label}, but there are {len(source.classes)} classes")
    return example.image.tobytes(), example.label.to_bytes(8, "little", signed=True)


def _unreadable(bad: list[str], to_the_end: bool) -> str:
    """Which files were unreadable, and the value of --skip that leaves them out."""
    count, others = len(bad), len(bad) - MOST_NAMED
    files = f"{count} unreadable file{'s' * (count > 1)}"
    named = "; ".join(bad[:MOST_NAMED]) + (f"; and {others} other{'s' * (others > 1)}" if others > 0 else "")
    if not to_the_end:
        return f"at least {files}: {named}; reading stopped there, --skip {count} or more leaves them out"
    return f"{files}: {named}; --skip {count} leaves {'them' if count > 1 else 'it'} out"
