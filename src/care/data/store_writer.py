"""Writing an image store: from the examples of a reader to a folder that is complete or absent."""

import shutil
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import numpy as np

from care.atomic_files import make_folder
from care.data.partial_store import PartialStore
from care.data.readers.source import Example, Resumable, Source, Unreadable, default_skip
from care.data.store import Header, open_store, read_header

MORE = 20  # unreadable files that are looked for beyond those
MOST_RECORDED = 1000  # in the header


class TooManyUnreadable(ValueError):
    """More files than allowed cannot be read. `skipped` says which and why, as does `file`, if there is one."""

    def __init__(self, message: str, skipped: list[str], file: Path | None) -> None:
        super().__init__(message)
        self.skipped, self.file = skipped, file


def is_prepared(folder: Path, source: Source, verify: bool = False) -> bool:
    """Whether there is a store that was made of the same files, in the same way; `verify` compares checksums."""
    try:
        same = read_header(folder).fingerprint == _fingerprint(source) != ""
        return same and len(open_store(folder, verify)) > 0
    except ValueError:
        return False


def write_store(
    folder: Path,
    name: str,
    split: str,
    source: Source,
    skip: int | None = None,
    overwrite: bool = False,
    tick: Callable[[int], object] = lambda read: None,
    say: Callable[[str], object] = lambda line: None,
) -> Header:
    """Write everything that `source` gives to the store `folder`.

    Up to `skip` unreadable files are left out and recorded in the header; by default 1 % of all, and always 10. More
    are an error, once 20 more are found or all are read. After an error there is no new store, and one that was there
    before is still there; what is written so far is kept beside it if the source is `Resumable`, and the next call goes
    on from there. `tick` is called with the number of examples read so far, `say` with what the user should know.
    """
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists; --overwrite replaces it")
    make_folder(folder.parent)
    fingerprint = _fingerprint(source)
    allowed = default_skip(source.expected) if skip is None else skip
    with PartialStore(folder, fingerprint, 3 * source.height * source.width, source.expected) as partial:
        if partial.note:
            say(partial.note)
        _check_room(partial)
        _write_examples(source, partial, allowed, tick)
        images_sha256, labels_sha256 = partial.digests()
        header = Header(
            name=name,
            split=split,
            count=partial.count,
            height=source.height,
            width=source.width,
            classes=list(source.classes),
            images_sha256=images_sha256,
            labels_sha256=labels_sha256,
            source=source.description,
            skipped=partial.skipped[:MOST_RECORDED],
            fingerprint=fingerprint,
        )
        partial.finish(header)
    return header


def _fingerprint(source: Source) -> str:
    return source.examples.fingerprint() if isinstance(source.examples, Resumable) else ""


def _check_room(partial: PartialStore) -> None:
    """OSError if the disk has too little room for what is missing, as far as it says how much it has."""
    disk = shutil.disk_usage(partial.folder)
    if disk.total > 0 and disk.free < partial.missing_bytes:
        room = f"it takes {partial.missing_bytes:,} bytes more, and {disk.free:,} are free"
        raise OSError(f"{partial.store} does not fit on its disk: {room}; make room, or choose another with --root")


def _write_examples(source: Source, partial: PartialStore, allowed: int, tick: Callable[[int], object]) -> None:
    tick(partial.read)
    with closing(_examples(source, partial.read)) as examples:
        for example in examples:
            if isinstance(example, Unreadable):
                partial.skip(f"{example.file}: {example.reason}")
            else:
                partial.add(*_encode(example, source))
            tick(partial.read)
            if len(partial.skipped) >= allowed + MORE:
                break
    if len(partial.skipped) > allowed:
        raise _too_many(partial, allowed)
    if partial.count == 0:
        raise ValueError(f"{source.description}: there is not a single image")


def _examples(source: Source, n: int) -> Generator[Example | Unreadable, None, None]:
    """All but the first n examples: there are some only if they can be left out."""
    yield from source.examples.after(n) if isinstance(source.examples, Resumable) else source.examples


def _encode(example: Example, source: Source) -> tuple[bytes, bytes]:
    """The bytes of the image and of the label."""
    shape = (3, source.height, source.width)
    if example.image.shape != shape or example.image.dtype != np.uint8:
        raise ValueError(f"an image is {example.image.dtype} {example.image.shape} instead of uint8 {shape}")
    if not -1 <= example.label < len(source.classes):
        raise ValueError(f"{source.description}: label {example.label}, but there are {len(source.classes)} classes")
    return example.image.tobytes(), example.label.to_bytes(8, "little", signed=True)


def _too_many(partial: PartialStore, allowed: int) -> TooManyUnreadable:
    found = len(partial.skipped)
    of = f"{partial.read:,} files" if partial.read == partial.expected else f"the first {partial.read:,} files"
    skip = f"--skip {found} leaves {'them' if found > 1 else 'it'} out"
    after = " and goes on where this stopped" if partial.fingerprint else ""
    message = f"{partial.store}: {found:,} of {of} cannot be read, and {allowed:,} may be left out; {skip}{after}"
    return TooManyUnreadable(message, partial.skipped, partial.list_skipped() if partial.fingerprint else None)
