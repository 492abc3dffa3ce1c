"""Data sets by name or path: where their stores are, which splits they have, and their samples."""

import os
import re
from pathlib import Path

from care.data.catalogue import ANY_FOLDER, DATA_SETS, GENERATED_SPLITS, Generated, Published
from care.data.readers import folder_splits
from care.data.readers.source import DataSource
from care.data.samples import Samples
from care.data.store import HEADER, open_store, stores_in
from care.data.streamed.opening import open_pictures, streamed_splits
from care.data.streamed.pictures import Decoder
from care.suggestions import did_you_mean

INDEXES = ".indexes"  # a folder beside the stores, for the indexes of archives
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def data_root(root: Path | None = None) -> Path:
    """The folder of all stores: `root`, or else $CARE_DATA, or else ~/.cache/care."""
    return root or Path(os.environ.get("CARE_DATA") or Path.home() / ".cache" / "care")


def load(
    name: str | Path,
    split: str = "train",
    root: Path | None = None,
    pixels: int | None = None,
    decoder: Decoder = "cpu",
    first: int | None = None,
    cache: Path | None = None,
) -> Samples:
    """The samples of a data set: generated, or from a store under the data root.

    `name` may also be the path of a store, of a folder with a store per split, or of a folder of pictures or shards
    that are not prepared. Only a `Path`, or text with a slash, is a path. Pictures that are not prepared are decoded on
    demand, to squares of `pixels`; with the `decoder` "gpu" on the GPU of the batch. The folder `cache`, if given,
    keeps decoded pictures. If only the `first` samples will be used, a generated data set may generate only these.
    """
    if isinstance(name, Path) or os.sep in name:
        path = Path(name)
        if is_streamed(path):
            indexes = data_root(root) / INDEXES
            return open_pictures(path, split, pixels, indexes=indexes, decoder=decoder, cache=cache)
        if not path.is_dir():
            raise ValueError(f"{name} is not a folder: expected the folder of a store, of pictures or of shards")
        return open_store(path if (path / HEADER).exists() else path / split)
    known = DATA_SETS.get(name)
    if isinstance(known, Generated):
        n, seed = GENERATED_SPLITS[_chosen(name, split, known.splits)]
        return known.generate(min(first or n, n) if known.prefix else n, seed)
    folder = store_folder(name, split, root)
    if known is not None and known.splits:
        _chosen(name, split, known.splits)
    if not (folder / HEADER).exists():
        raise ValueError(_not_prepared(name, split, root))
    return open_store(folder)


def is_streamed(name: str | Path) -> bool:
    """Whether this is the path of a folder of pictures or shards that are not prepared."""
    if not isinstance(name, Path) and os.sep not in name:
        return False
    path = Path(name)
    return path.is_dir() and not (path / HEADER).exists() and not stores_in(path)


class NoHeldoutSplit(ValueError):
    """A data set has neither a test nor a val split."""


def heldout_split(name: str | Path, root: Path | None = None) -> str:
    """The split to evaluate on: test if there is one, else val; ValueError if there is neither."""
    there = known_splits(name, root)
    for split in ("test", "val"):
        if split in there:
            return split
    if isinstance(name, Path) or os.sep in name:
        if not Path(name).exists():
            raise ValueError(f"{name} does not exist: give a folder")
    elif not there:
        raise ValueError(_not_prepared(name, "test", root))
    wanted = "train with `validation` N, which holds samples out of train, or put a folder test beside train"
    raise NoHeldoutSplit(f"{name} has neither a test nor a val split: {wanted}")


def known_splits(name: str | Path, root: Path | None = None) -> tuple[str, ...]:
    """The splits of a data set, prepared or not; for an unregistered one, the splits that have a store."""
    if is_streamed(name):
        return streamed_splits(Path(name))
    if isinstance(name, Path) or os.sep in name:
        return tuple(store.name for store in stores_in(Path(name)))
    known = DATA_SETS.get(name)
    return known.splits if known is not None and known.splits else prepared_splits(name, root)


def store_folder(name: str, split: str, root: Path | None = None) -> Path:
    """The folder for the store of a split, which need not exist."""
    for text in (name, split):
        if not NAME.fullmatch(text):
            raise ValueError(
                f"{text!r} is not a valid name: use letters, digits and . _ + -, beginning with a letter or digit"
            )
    return data_root(root) / name / split


def prepared_splits(name: str, root: Path | None = None) -> tuple[str, ...]:
    """The splits that have a store. The stores are not checked."""
    folder = store_folder(name, "any", root).parent
    return tuple(store.name for store in stores_in(folder) if NAME.fullmatch(store.name))


def prepared_names(root: Path | None = None) -> tuple[str, ...]:
    """The names of all data sets that have a store, registered or not."""
    names = {folder.name for folder in data_root(root).glob("*/") if NAME.fullmatch(folder.name)}
    return tuple(sorted(name for name in names if prepared_splits(name, root)))


def published(name: str) -> Published:
    """The catalogue entry of a data set that is read from files; any other name means a folder of pictures."""
    known = DATA_SETS.get(name, ANY_FOLDER)
    if isinstance(known, Generated):
        raise ValueError(f"{name} is generated when it is used: there is nothing to prepare or to check")
    return known


def splits_of(name: str, path: Path) -> tuple[str, ...]:
    """The splits that can be prepared from `path`."""
    return published(name).splits or folder_splits(path)


def read(name: str, path: Path, split: str, pixels: int | None = None) -> DataSource:
    """The reader of a split of a data set whose files are in `path`."""
    known = published(name)
    _chosen(name, split, splits_of(name, path))
    if pixels is not None and known.pixels is None:
        raise ValueError(f"the pictures of {name} all have the same size: leave out `pixels`")
    if not path.exists():
        raise ValueError(f"{path} does not exist: give the folder or archive that you downloaded")
    return known.read(path, split, pixels if known is ANY_FOLDER else pixels or known.pixels)


def _chosen(name: str, split: str, splits: tuple[str, ...]) -> str:
    if split not in splits:
        raise ValueError(f"{name} has no split {split!r}, only {', '.join(splits)}")
    return split


def _not_prepared(name: str, split: str, root: Path | None) -> str:
    if name not in DATA_SETS and not prepared_splits(name, root):
        if Path(name).is_dir():  # not taken for it: a name stands for a store, wherever a command is run
            return (
                f"no data set is called {name!r}, but there is a folder {name}: write {name}/ to read the folder, or "
                f"prepare it: care data prepare {name} --from {name}"
            )
        there = sorted({*DATA_SETS, *prepared_names(root)})
        return f"no data set is called {name!r}: choose one of {', '.join(there)}{did_you_mean(name, there)}"
    command = f"care data prepare {name} --from FOLDER" + (f" --root {root}" if root else "")
    other = ", or with --download in place of --from FOLDER" if getattr(DATA_SETS.get(name), "download", None) else ""
    return f"{name} has no split {split!r} in {data_root(root)}: run {command}{other}"
