"""Open files by name in a folder, or in an archive without unpacking it."""

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

ARCHIVES = (".tar.gz", ".tgz", ".tar")


class FolderMembers:
    """The files of a folder on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return (self.folder / name).is_file()

    def open(self, name: str) -> BufferedReader:
        """The file, to be closed by the caller; a ValueError if there is none."""
        if not self.has(name):
            raise ValueError(f"{self.describe(name)} is missing")
        return (self.folder / name).open("rb")

    def describe(self, name: str) -> str:
        """The file as error messages name it."""
        return str(self.folder / name)


class ArchiveMembers:
    """The plain files of one folder inside of a tar archive; links and devices are ignored."""

    def __init__(self, archive: tarfile.TarFile, path: Path, folder: str) -> None:
        self.archive, self.path, self.folder = archive, path, folder
        plain = (member for member in archive.getmembers() if member.isreg())
        self.members = {member.name.removeprefix("./"): member for member in plain}

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return f"{self.folder}/{name}" in self.members

    def open(self, name: str) -> BufferedReader:
        """The file, to be closed by the caller; a ValueError if there is none."""
        opened = self.archive.extractfile(self.members[f"{self.folder}/{name}"]) if self.has(name) else None
        if not isinstance(opened, BufferedReader):
            raise ValueError(f"{self.describe(name)} is missing")
        return opened

    def describe(self, name: str) -> str:
        """The file as error messages name it."""
        return f"{self.path}: {self.folder}/{name}"


Members = FolderMembers | ArchiveMembers


@contextmanager
def members_of(path: Path, folder: str) -> Iterator[Members]:
    """The files of `folder`, where `path` is that folder, the folder it is in, or an archive of it."""
    if path.is_dir():
        yield FolderMembers(path / folder if (path / folder).is_dir() else path)
    elif path.is_file() and path.name.endswith(ARCHIVES):
        with _archive_errors(path), tarfile.open(path) as archive:
            yield ArchiveMembers(archive, path, folder)
    else:
        raise ValueError(f"{path} is neither a folder nor an archive ({', '.join(ARCHIVES)})")


@contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a broken archive into one ValueError."""
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read, download it again: {error}") from error
