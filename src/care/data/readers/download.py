"""Download archives with known checksums."""

import hashlib
import http.client
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Download:
    """An archive at its authors' university, and its MD5, the checksum that they publish."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rsplit("/", 1)[1]


def fetch(download: Download, folder: Path, tick: Callable[[int], object] = lambda done: None) -> Path:
    """The archive, written into `folder` and checked; `tick` is called with the number of bytes so far.

    ValueError, and no file, if the checksum does not match.
    """
    file, digest = folder / download.name, hashlib.md5(usedforsecurity=False)
    try:
        with urllib.request.urlopen(download.url, timeout=TIMEOUT) as response, file.open("wb") as out:
            while data := response.read(CHUNK):
                out.write(data)
                digest.update(data)
                tick(out.tell())
        if digest.hexdigest() != download.md5:
            raise ValueError(f"{download.url} is not the expected file: its MD5 is {digest.hexdigest()}")
    except (OSError, http.client.HTTPException) as error:
        file.unlink(missing_ok=True)
        raise ValueError(
            f"{download.url} cannot be downloaded ({error}); without a network, copy the file here"
        ) from error
    except ValueError:
        file.unlink(missing_ok=True)
        raise
    return file
