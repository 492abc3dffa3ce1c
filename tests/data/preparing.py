"""24 pictures, three of them broken, as a store; and how preparing it is stopped."""

from care.data import write_store
from care.data.readers import read_folder

FILES, SIDE = 24, 8
SHARD = 1 << 16  # bytes: the smallest; 200 pixels are two shards to a picture, 8 are one shard in all


def prepare(folder, photos, **options):
    """The header and what was said."""
    said, source = [], read_folder(photos, "train", options.pop("side", SIDE))
    options = {"workers": 2, "shard_bytes": SHARD} | options
    return write_store(folder, "pets", "train", source, say=said.append, **options), said


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Stopped(BaseException):
    """As Ctrl-C, at a known moment."""


def stopping(after):
    def tick(read):
        if read >= after:
            raise Stopped

    return tick
