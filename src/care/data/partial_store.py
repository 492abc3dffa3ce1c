"""A partly written store, which survives the process that writes it.

It is in the folder `.partial-SPLIT` beside the final store:

| file           | content                                                                                  |
|----------------|------------------------------------------------------------------------------------------|
| `journal.json` | which blocks are written, with their checksums, and the fingerprint of the examples      |
| `store/`       | the files of the store; blocks that do not have the checksum of the journal do not count |
| `lock`         | held by the process that writes                                                          |

Every file has a row. An unreadable file leaves a gap with the label `GAP`. At the end, the last rows fill the gaps.
"""

import dataclasses
import errno
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np

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
from care.data.blocks import LABEL_BYTES, StoreFiles
from care.data.store import DIGESTS, HEADER, SKIPPED, Header

JOURNAL, FILES = "journal.json", "store"
SECONDS_BETWEEN_SAVES, SECONDS_TO_WAIT = 5.0, 3.0
GAP = -2  # the label of a gap; −1 is the label of a picture without a class


@dataclass(frozen=True)
class Block:
    """A written block: its number of rows, its checksum, and the files that could not be read for it."""

    rows: int
    sha256: str
    skipped: list[str]


@dataclass(frozen=True)
class Journal:
    """The fingerprint of the examples, the sizes that cut the store into blocks, and the written blocks by number."""

    fingerprint: str
    cut: list[int]
    blocks: dict[int, Block] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The text of `journal.json`."""
        blocks = [[number, block.rows, block.sha256, block.skipped] for number, block in self.blocks.items()]
        record = {"sha256": BLANK.decode(), "fingerprint": self.fingerprint, "cut": self.cut, "blocks": blocks}
        return seal(json.dumps(record, separators=(",", ":")).encode())

    @classmethod
    def read(cls, file: Path) -> "Journal | None":
        """The journal in a file; None if it is missing or damaged."""
        try:
            text = file.read_bytes()
            record = json.loads(text)
            blocks = {number: Block(*about) for number, *about in record["blocks"]}
            return cls(record["fingerprint"], record["cut"], blocks) if is_sealed(text) else None
        except (OSError, ValueError, TypeError, KeyError):
            return None


class PartialStore:
    """The written part of `store`. A context: if it fails, the part is kept for another process to continue.

    `fingerprint` is that of the examples; if it is "", they can only be read from the start, and nothing is kept.
    `files` has the sizes of shards and blocks, `expected` is the number of examples, and `say` receives messages about
    the start.
    """

    def __init__(
        self, store: Path, fingerprint: str, files: StoreFiles, expected: int, say: Callable[[str], object]
    ) -> None:
        self.store, self.fingerprint, self.expected = store, fingerprint, expected
        self.folder = store.with_name(f".partial-{store.name}")
        self.files = dataclasses.replace(files, folder=self.folder / FILES)
        self.journal = Journal(fingerprint, [files.row_bytes, files.shard_bytes, files.block_rows])
        self.read, self.unreadable, self.saved_at = 0, 0, time.monotonic()
        with self.writing():
            make_folder(self.folder)
            self.lock = self._locked(time.monotonic() + SECONDS_TO_WAIT)
            before = Journal.read(self.folder / JOURNAL)
            if before and self.fingerprint and (before.fingerprint, before.cut) == (fingerprint, self.journal.cut):
                self._go_on(before.blocks, say)
            else:
                self._start()
                if before:
                    say("starts over, because the files or the settings have changed")

    def _locked(self, end: float) -> Lock:
        """The lock; waits a little, because workers of a killed process hold it until they notice its death."""
        while True:
            try:
                return Lock(self.folder / "lock")
            except BlockingIOError:
                if time.monotonic() > end:
                    by = "is being prepared by another process: wait until it ends"
                    raise ValueError(f"{self.store} {by}") from None
                time.sleep(0.05)

    def _go_on(self, blocks: dict[int, Block], say: Callable[[str], object]) -> None:
        """Take over the blocks whose checksums still match."""
        rows = sum(block.rows for block in blocks.values())
        say(f"goes on after {rows:,} of {self.expected:,} files, once their checksums are compared")
        for (number, block), found in zip(blocks.items(), self.files.digests(blocks, self.expected), strict=True):
            if found == block.sha256:
                self._count(number, block)
        if self.read < rows:
            say(f"{rows - self.read:,} of these have changed since they were written, and are read again")

    def _start(self) -> None:
        (self.folder / JOURNAL).unlink(missing_ok=True)
        if self.files.folder.exists():
            remove_folder(self.files.folder)
        make_folder(self.files.folder)

    def _count(self, number: int, block: Block) -> None:
        self.journal.blocks[number] = block
        self.read, self.unreadable = self.read + block.rows, self.unreadable + len(block.skipped)

    @property
    def skipped(self) -> list[str]:
        """The files that could not be read, and why."""
        blocks = self.journal.blocks
        return [line for number in sorted(blocks) for line in blocks[number].skipped]

    @property
    def missing_bytes(self) -> int:
        """The number of bytes still to be written, if all remaining examples can be read."""
        return (self.expected - self.read) * (self.files.row_bytes + LABEL_BYTES)

    def add(self, number: int, block: Block) -> None:
        """Record a written block. If it is lost before it reaches the disk, its checksum will not match."""
        self._count(number, block)
        if self.fingerprint and time.monotonic() - self.saved_at >= SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Write the journal to the disk, so that another process can continue from here."""
        with self.writing():
            write_atomically(self.folder / JOURNAL, self.journal.encode())
            self.saved_at = time.monotonic()

    def close_gaps(self) -> tuple[int, str, str]:
        """Fill the gaps with the last rows. Returns the number of rows, and the SHA-256 of their blocks and labels.

        Changed blocks no longer match the checksums of the journal, so they are written again after a kill.
        """
        with self.writing():
            rows, labels = self.read, np.fromfile(self.files.labels, "<i8")
            digests = {number: block.sha256 for number, block in self.journal.blocks.items()}
            there = np.flatnonzero(labels != GAP)
            count = len(there)
            gaps = np.flatnonzero(labels[:count] == GAP)
            for gap, last in zip(gaps.tolist(), there[count - len(gaps) :].tolist(), strict=True):
                self.files.write(gap, *self.files.read(range(last, last + 1)))
            if count < rows:
                self.files.truncate(count)
            changed = sorted({*(gaps // self.files.block_rows).tolist(), *self._cut_off(count, rows)})
            digests |= dict(zip(changed, self.files.digests(changed, count), strict=True))
            written = bytes.fromhex("".join(digests[number] for number in self.files.blocks(count)))
            (self.files.folder / DIGESTS).write_bytes(written)
            labels_sha256 = hashlib.sha256(self.files.labels.read_bytes()).hexdigest()
            return count, hashlib.sha256(written).hexdigest(), labels_sha256

    def _cut_off(self, count: int, rows: int) -> list[int]:
        """The block, if any, that becomes shorter if only the first `count` of `rows` rows remain."""
        whole, rest = divmod(count, self.files.block_rows)
        return [whole] if rest and count < rows else []

    def finish(self, header: Header) -> None:
        """Complete the store and move it to its final place."""
        with self.writing():
            self.list_skipped()
            (self.files.folder / HEADER).write_bytes(header.encode())
            move_durably(self.files.folder, self.store)
            remove_folder(self.folder)

    def list_skipped(self) -> Path | None:
        """Write the file that lists the files left out, one per line; None if none was."""
        file, text = self.files.folder / SKIPPED, "".join(f"{line}\n" for line in self.skipped)
        if text:
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        return file if text else None

    def __enter__(self) -> "PartialStore":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None and self.fingerprint:
            with suppress(OSError):  # then the last journal counts
                self.save()
        elif error is not None:
            remove_folder(self.folder)
        self.lock.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make an OSError in the block name the store and, if the disk is full, the number of bytes needed."""
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
