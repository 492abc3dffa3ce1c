"""Picture files in a folder, with a folder per class or without classes."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from care.data.readers.files import picture_paths
from care.data.readers.folder import no_pictures, split_parts
from care.data.streamed.encoded import Names


@dataclass(frozen=True)
class PictureFiles:
    """The pictures of a split of a folder in the order of their paths. A million take some 50 MB of memory."""

    root: Path
    names: Names
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    shards: None = None

    def read(self, index: int) -> Path:
        """Its path: Pillow reads no more of the file than it needs."""
        return self.root / self.names[index]

    def name(self, index: int) -> str:
        """Its path."""
        return str(self.read(index))

    def digest(self) -> str:
        """Of names and labels: a million files are not asked for their sizes, which takes a file server minutes."""
        found = hashlib.blake2b(self.names.text, digest_size=16)
        found.update(self.labels.numpy().tobytes())
        return found.hexdigest()


def open_files(path: Path, split: str) -> PictureFiles:
    """The pictures of a split, found without opening them."""
    root = path.absolute()
    classes, parts = split_parts(root, split)
    names, labels, beyond = list[str](), list[int](), len(os.path.join(root, ""))
    for label, part in parts:
        found = picture_paths(part)[0]
        names += [file[beyond:] for file in found]
        labels += [label] * len(found)
    if not names:
        raise ValueError(no_pictures(parts[0][1].parent if classes else parts[0][1], classes))
    return PictureFiles(root, Names.of(names), torch.tensor(labels, dtype=torch.int64), classes)
