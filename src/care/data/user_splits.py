"""Write pictures given in Python, or in a folder, to stores; on resume, check that the same pictures are pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from care.atomic_files import remove_folder
from care.data.catalogue import DATA_SETS
from care.data.datasets import Examples, read_dataset
from care.data.readers import DataSource, folder_splits, read_folder
from care.data.readers.pictures import shuffled
from care.data.registry import prepared_names
from care.data.store import HEADER, open_store, read_header, stores_in
from care.data.store_writer import write_store
from care.progress import ProgressCallback

COMPARED = 64  # pictures compared if they are given again


def data_set_name(data: Any) -> str | None:
    """The name of a data set or the path of a store; None for pictures that have to be stored first."""
    if isinstance(data, str) and (data in DATA_SETS or data in prepared_names()):
        return data
    if not isinstance(data, str | Path):
        return None
    folder = Path(data).absolute()
    if not folder.is_dir():
        raise ValueError(f"{data} is neither the name of a data set (care data list) nor a folder of pictures")
    return str(folder) if (folder / HEADER).exists() or stores_in(folder) else None


@dataclass(frozen=True)
class UserSplit:
    """The pictures that a user gave for a split: the `part` of a folder, or anything that `read_dataset` takes."""

    pictures: Any
    part: str = "train"
    pixels: int | None = None
    workers: int = 0

    def source(self) -> DataSource:
        """The data source that reads the pictures."""
        if isinstance(self.pictures, str | Path):
            return read_folder(Path(self.pictures), self.part, self.pixels)
        return read_dataset(self.pictures, self.pixels, self.workers)

    def is_in(self, store: Path) -> bool:
        """Whether a store was written from these pictures: compares the file count of a folder, else some pictures."""
        if isinstance(self.pictures, str | Path):
            source, header = self.source(), read_header(store)
            found = (source.expected, source.description, source.height, source.classes)
            return found == (header.count + len(header.skipped), header.source, header.height, tuple(header.classes))
        examples, samples = Examples(self.pictures, self.pixels), open_store(store)
        if (len(examples), examples.size, examples.classes) != (len(samples), samples.input_shape, samples.classes):
            return False
        order = shuffled(range(len(examples)))
        rows = np.linspace(0, len(order) - 1, min(COMPARED, len(order))).round().astype(int).tolist()
        return all(np.array_equal(examples[order[row]].image, samples.inputs[row].numpy()) for row in rows)


def user_splits(data: Any, heldout: Any, pixels: int | None, workers: int) -> dict[str, UserSplit]:
    """The pictures of each split. `heldout` becomes the test split; without it, a folder keeps its own splits."""
    if isinstance(data, str | Path) and heldout is None:
        return {part: UserSplit(data, part, pixels) for part in folder_splits(Path(data))}
    splits = {"train": UserSplit(data, "train", pixels, workers)}
    if heldout is not None:
        parts = folder_splits(Path(heldout)) if isinstance(heldout, str | Path) else ("train",)
        splits["test"] = UserSplit(heldout, "test" if "test" in parts else parts[0], pixels, workers)
    return splits


def store_user_splits(
    splits: dict[str, UserSplit], folder: Path, keep: bool, say: Callable[[str], object], progress: ProgressCallback
) -> None:
    """Write every split to a store in `folder`; `say` receives messages for the user.

    An existing store with the same pictures is not written again. A store with other pictures is replaced, or is a
    ValueError with `keep`, because a run was trained on it. Without `keep`, stores of other splits are removed.
    """
    for split, pictures in splits.items():
        if (folder / split / HEADER).exists() and pictures.is_in(folder / split):
            continue
        if keep:
            raise ValueError(
                f"these are not the pictures that the run in {folder.parent} was started with: "
                "resume with the same pictures and no random transforms, or choose another out"
            )
        source = pictures.source()

        def read(count: int, split: str = split, expected: int = source.expected) -> None:
            progress(f"reading {split}", count, expected)

        header = write_store(folder / split, folder.parent.name, split, source, overwrite=True, tick=read, say=say)
        for line in (*source.notes, *(f"left out: {file}" for file in header.skipped)):
            say(line)
    for store in [] if keep else stores_in(folder):
        if store.name not in splits:
            remove_folder(store)
    classes = {split: read_header(folder / split).classes for split in splits}
    if len({tuple(names) for names in classes.values() if names}) > 1:
        named = " and ".join(f"{split}: {', '.join(names[:5])}" for split, names in classes.items())
        raise ValueError(f"the held-out pictures must have the classes of the training pictures, or none: {named}")
