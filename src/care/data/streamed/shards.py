"""Find the shards in a folder, files that hold many pictures each, and their splits."""

import os
import re
from pathlib import Path

from care.data.readers.files import folders_in
from care.data.readers.folder import SHARDS, SPLITS

BETWEEN_SPLITS = "data"  # the folder in which data sets of the Hugging Face hub keep the files of all splits
SPLIT_NAMED = {name: split for split, names in SPLITS.items() for name in names}


def shard_files(path: Path) -> dict[str, list[Path]]:
    """The shards of each split, in the order of their names; {} if there are none.

    They are in the folder itself, in a folder named after a split, or in `data`. The name of a shard or of its folder
    gives the split. If no shard is named train, all are.
    """
    folders = [path, *(path / name for name in folders_in(path) if name.lower() in (*SPLIT_NAMED, BETWEEN_SPLITS))]
    found = sorted(file for folder in folders for file in _shards_in(folder))
    splits = {split: [file for file in found if split_of(file, path) == split] for split in SPLITS}
    if not splits["train"]:
        return {"train": found} if found else {}
    return {split: files for split, files in splits.items() if files}


def split_of(file: Path, path: Path) -> str | None:
    """The split in the name of a shard, or of its folder in `path`."""
    words = re.split(r"[^a-z]+", str(file.relative_to(path)).lower())
    return next((SPLIT_NAMED[word] for word in words if word in SPLIT_NAMED), None)


def _shards_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        # Avoid creating a Path for each of possibly a million pictures.
        ending = [Path(entry) for entry in entries if entry.name.lower().endswith(SHARDS)]
    return [file for file in ending if file.suffix.lower() in SHARDS]
