"""A store that is being written, which survives the process that writes it.

It is in a folder beside the store to be, `.partial-SPLIT`:

| file           | content                                                                                     |
|----------------|---------------------------------------------------------------------------------------------|
| `journal.json` | how much of the store is on the disk, its checksums, and the fingerprint of the examples    |
| `store/`       | the files of the store; they may be longer than the journal says, and are cut off to go on  |
| `lock`         | held by the process that writes                                                             |
"""

import dataclasses
import errno
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from care.atomic_files import (
    BLANK,
    Lock,
    is_sealed,
    make_folder,
    move_durably,
    remove_folder,
    seal,
    write_atomically,
)
from care.data.store import HEADER, IMAGES, LABELS, SKIPPED, Header

JOURNAL, FILES = "journal.json", "store"
SECONDS_BETWEEN_SAVES = 5.0
CHUNK = 1 << 20
LABEL_BYTES = 8


@dataclass(frozen=True)
class Journal:
    """What is on the disk: `count` examples are written, and those of `skipped` between them are left out."""

    fingerprint: str
    count: int
    images_sha256: str
    labels_sha256: str
    skipped: list[str]

    def encode(self) -> bytes:
        """The text of `journal.json`."""
        return seal(json.dumps({"sha256": BLANK.decode(), **dataclasses.asdict(self)}, separators=(",", ":")).encode())

    @classmethod
    def read(cls, file: Path) -> "Journal | None":
        """The journal in a file, if there is one, and a whole one."""
        try:
            text = file.read_bytes()
            record = json.loads(text)
            return cls(**record) if is_sealed(text) and record.pop("sha256") else None
        except (OSError, ValueError, TypeError):
            return None


class GrowingFile:
    """A file that bytes are added to; how many they are, and their SHA-256."""

    def __init__(self, path: Path, size: int) -> None:
        """Keep the first `size` bytes of the file; ValueError if it has fewer."""
        self.file = path.open("r+b" if path.exists() else "w+b")
        digest = hashlib.sha256()
        for start in range(0, size, CHUNK):
            digest.update(self.file.read(min(CHUNK, size - start)))
        if self.file.tell() != size:
            self.file.close()
            raise ValueError(f"{path} has fewer than {size} bytes")
        self.file.truncate()
        self.state = size, digest

    def add(self, data: bytes) -> None:
        """Write the bytes, which may stay in memory for a while."""
        self.file.write(data)
        size, digest = self.state[0] + len(data), self.state[1].copy()
        digest.update(data)
        self.state = size, digest  # in one step: Ctrl-C may come between any two

    def sync(self) -> None:
        """Bring all bytes to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Close the file, whatever becomes of bytes that are not yet on the disk."""
        with suppress(OSError):
            self.file.close()


class PartialStore:
    """The part of `store` that is written. As a context: kept if the block fails and another process can go on.

    `fingerprint` is that of the examples; "" if they cannot be read from the middle, and nothing is kept. `image_bytes`
    is the size of one image, `expected` the number of examples, and `note` what the user should know about the start.
    """

    def __init__(self, store: Path, fingerprint: str, image_bytes: int, expected: int) -> None:
        self.store, self.fingerprint, self.expected = store, fingerprint, expected
        self.sizes = {IMAGES: image_bytes, LABELS: LABEL_BYTES}
        self.folder = store.with_name(f".partial-{store.name}")
        self.files: dict[str, GrowingFile] = {}
        self.count, self.skipped, self.saved_at = 0, list[str](), time.monotonic()
        with self._writing():
            make_folder(self.folder)
            try:
                self.lock = Lock(self.folder / "lock")
            except BlockingIOError:
                raise ValueError(f"{store} is being prepared by another process: wait until that has ended") from None
            self.note = self._open()

    def _open(self) -> str:
        """Go on where the journal ends, or start anew; and what to say about it."""
        journal, note = Journal.read(self.folder / JOURNAL), ""
        if journal is not None and journal.fingerprint == self.fingerprint != "":
            if self._go_on(journal):
                return f"goes on after {self.read:,} of {self.expected:,} files"
            note = "starts anew, since what was written before has changed"
        elif journal is not None:
            note = "starts anew, since the files or the settings have changed"
        self._start()
        return note

    def _go_on(self, journal: Journal) -> bool:
        """Whether the files begin with what the journal says; they are cut off after that."""
        try:
            for name, size in self.sizes.items():
                self.files[name] = GrowingFile(self.folder / FILES / name, size * journal.count)
        except (OSError, ValueError):
            return False
        self.count, self.skipped = journal.count, journal.skipped
        return self.digests() == [journal.images_sha256, journal.labels_sha256]

    def _start(self) -> None:
        self.close()
        (self.folder / JOURNAL).unlink(missing_ok=True)
        if (self.folder / FILES).exists():
            remove_folder(self.folder / FILES)
        make_folder(self.folder / FILES)
        self.files = {name: GrowingFile(self.folder / FILES / name, 0) for name in self.sizes}
        self.count, self.skipped = 0, []

    @property
    def read(self) -> int:
        """How many examples have been read."""
        return self.count + len(self.skipped)

    @property
    def missing_bytes(self) -> int:
        """How many bytes are still to be written, if all other examples can be read."""
        return (self.expected - self.read) * sum(self.sizes.values())

    def digests(self) -> list[str]:
        """The SHA-256 of images and labels so far."""
        return [file.state[1].hexdigest() for file in self.files.values()]

    def add(self, image: bytes, label: bytes) -> None:
        """Add an example."""
        with self._writing():
            self.files[IMAGES].add(image)
            self.files[LABELS].add(label)
        self.count += 1
        if self.fingerprint and time.monotonic() - self.saved_at >= SECONDS_BETWEEN_SAVES:
            self.save()

    def skip(self, line: str) -> None:
        """Leave out an example; `line` says which and why."""
        self.skipped.append(line)

    def save(self) -> None:
        """Bring everything to the disk, so that another process can go on from here."""
        with self._writing():
            for file in self.files.values():
                file.sync()
            images, labels = self.digests()
            journal = Journal(self.fingerprint, self.count, images, labels, self.skipped)
            write_atomically(self.folder / JOURNAL, journal.encode())
            self.saved_at = time.monotonic()

    def finish(self, header: Header) -> None:
        """Complete the store and put it where it belongs."""
        with self._writing():
            self.close()
            self.list_skipped()
            (self.folder / FILES / HEADER).write_bytes(header.encode())
            move_durably(self.folder / FILES, self.store)
            remove_folder(self.folder)

    def list_skipped(self) -> Path | None:
        """The file that lists what was left out, one to a line; None if nothing was."""
        file, text = self.folder / FILES / SKIPPED, "".join(f"{line}\n" for line in self.skipped)
        if text:
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        return file if text else None

    def close(self) -> None:
        """Close the files."""
        for file in self.files.values():
            file.close()

    def __enter__(self) -> "PartialStore":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        whole = all(self.files[name].state[0] == size * self.count for name, size in self.sizes.items())
        if error is not None and self.fingerprint and whole:
            with suppress(OSError):  # then the last journal counts
                self.save()
        self.close()
        if error is not None and not self.fingerprint:
            remove_folder(self.folder)
        self.lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """An OSError in the block says what could not be written and, of a full disk, how much room is needed."""
        try:
            yield
        except OSError as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            reason = cause.strerror or str(cause)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                after = ", which goes on where this stopped" if self.fingerprint else ""
                needed = f"the disk is full, and {self.missing_bytes:,} bytes more are needed"
                reason = f"{needed}: make room and run the same command again{after}"
            raise OSError(error.errno, f"{self.store} could not be written: {reason}", str(self.store)) from error
