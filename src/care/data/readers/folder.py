"""Read a folder of pictures, with a folder per class, as in ImageNet, or without classes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from care.data.readers.files import folders_in, ignored, pictures_beside, pictures_in
from care.data.readers.pictures import Pictures, shuffled
from care.data.readers.side import stored_side
from care.data.readers.source import DataSource

# The names of the folders of each split, in small or capital letters.
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}

LARGEST = 256  # pixels of a side, if none is chosen
SHARDS = (".tar", ".parquet", ".arrow")  # files that hold many pictures each, which are not prepared


def folder_splits(path: Path) -> tuple[str, ...]:
    """The splits of a folder: PATH/train, PATH/val, …, or only "train" if classes or pictures are directly in PATH."""
    return tuple(_split_folders(path))


def read_folder(path: Path, split: str, pixels: int | None) -> DataSource:
    """A split of the folder in `shuffled` order; the classes are the folders of the training pictures, by name.

    Pictures become squares of `pixels`, by default 256, or the shorter side of most training pictures if that is less:
    enlarging adds nothing, and views are made no larger than the pictures. Without such folders there are no classes,
    and all labels are −1. Files that are not pictures are ignored and counted in the notes; folders beside the splits
    are ignored and listed there.
    """
    classes, parts = split_parts(path, split)
    files, others = _labeled(parts)
    folders = _split_folders(path)
    if not files:
        raise ValueError(no_pictures(folders[split], classes))
    loose = pictures_without_class(folders[split], classes, len(files))
    notes = (
        *_beside(path, folders),
        *([loose] if loose else []),
        *_nested(folders[split], classes, files),
        *([ignored(others)] if others else []),
    )
    side = pixels or _own_side(path)
    if pixels is None and side < LARGEST:
        notes += (f"small pictures keep their own size: squares of {side} pixels, unless `pixels` says otherwise",)
    pictures, description = Pictures(shuffled(files), side), f"pictures of the folder {path.name}, {split}"
    return DataSource(description, classes, side, side, len(files), pictures, notes)


def _own_side(path: Path) -> int:
    """The side for all splits, by the pictures of the split train."""
    files, _ = _labeled(split_parts(path, "train")[1])
    return stored_side([file for file, _ in files], LARGEST)


def split_parts(path: Path, split: str) -> tuple[tuple[str, ...], list[tuple[int, Path]]]:
    """The classes, and (label, folder) of each class in the split; without classes, (−1, the folder of the split)."""
    folders = _split_folders(path)
    if split not in folders:
        raise ValueError(f"{path} has no split {split!r}, only {', '.join(folders)}")
    chosen = folders[split]
    classes, there = tuple(folders_in(folders["train"])), folders_in(chosen)
    if unknown := sorted(set(there) - set(classes)):
        raise ValueError(f"{chosen / unknown[0]}: the training pictures have no such class")
    if classes and not there:
        raise ValueError(f"{chosen} has no folders of classes: pictures are expected in FOLDER/{chosen.name}/CLASS/")
    parts = [(label, chosen / name) for label, name in enumerate(classes) if name in there]
    return classes, parts if classes else [(-1, chosen)]


def _split_folders(path: Path) -> dict[str, Path]:
    """The folder of each split."""
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    found: dict[str, Path] = {}
    for folder in folders_in(path):
        for split in (split for split, names in SPLITS.items() if folder.lower() in names):
            if split in found:
                both = f"{found[split].name} and {folder}"
                raise ValueError(f"{path} has {both}, which would both be the split {split}: rename one")
            found[split] = path / folder
    return {split: found[split] for split in SPLITS if split in found} if "train" in found else {"train": path}


def _labeled(parts: list[tuple[int, Path]]) -> tuple[list[tuple[Path, int]], Counter[str]]:
    """The pictures of a split with their labels, and a count of the other files."""
    files, others = list[tuple[Path, int]](), Counter[str]()
    for label, part in parts:
        pictures, rest = pictures_in(part)
        files += [(file, label) for file in pictures]
        others += rest
    return files, others


def pictures_without_class(folder: Path, classes: tuple[str, ...], within: int) -> str | None:
    """The note about pictures beside the folders of classes, which hold `within` pictures.

    ValueError if there are more pictures beside the folders than in them: the folders are then hardly classes.
    """
    beside = pictures_beside(folder) if classes else 0
    if not beside:
        return None
    names = _first(classes)
    if beside > within:
        raise ValueError(
            f"{folder}: {beside:,} pictures are beside its folders ({names}), which have {within:,}. Folders are "
            f"classes: put every picture into one or, without classes, all of them into {folder / 'train'}"
        )
    many = "1 picture" if beside == 1 else f"{beside:,} pictures"
    return f"ignored, since they are beside the folders of classes ({names}): {many} in {folder}"


def _first(names: Sequence[str]) -> str:
    """The first three names."""
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _beside(path: Path, folders: dict[str, Path]) -> list[str]:
    """The note about folders beside those of the splits."""
    there = set(folders_in(path)) - {folder.name for folder in folders.values()}
    rest = [] if path in folders.values() else sorted(there)
    known = ", ".join(name for names in SPLITS.values() for name in names)
    return [f"ignored, since folders of splits are called {known}: {', '.join(rest)} in {path}"] if rest else []


def _nested(folder: Path, classes: tuple[str, ...], files: list[tuple[Path, int]]) -> list[str]:
    """The note about folders inside those of the classes, if all pictures are in several of these: group/class/1.jpg.

    A single name, as in Tiny ImageNet's n01443537/images/1.jpg, is no class.
    """
    inside = {file.relative_to(folder).parts[1:-1] for file, _ in files} if classes else {()}
    inner = sorted({names[0] for names in inside if names})
    if () in inside or len(inner) < 2:
        return []
    return [f"classes are the folders in {folder} ({_first(classes)}), not those inside ({_first(inner)})"]


def no_pictures(folder: Path, classes: tuple[str, ...]) -> str:
    """The error message for a folder of a split without pictures."""
    folders = [folder, *(folder / name for name in folders_in(folder))]  # Parquet files of the hub are in data/
    if any(file.suffix.lower() in SHARDS for one in folders for file in one.iterdir()):
        return f"{folder} holds shards, which need not be prepared: care train --data {folder}/ reads them"
    if classes:
        return f"the class folders in {folder} hold no pictures"
    wanted = "pictures are expected in FOLDER/train/CLASS/, or in FOLDER/train/ if they have no classes"
    return f"{folder} has no folders of classes and no pictures: {wanted}"
