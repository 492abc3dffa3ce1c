"""Data sets to transfer to: the samples for fitting, tuning and testing a classifier."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from care import data
from care.data import Samples
from care.data.registry import NoHeldoutSplit, heldout_split, known_splits

# For these, whose classes differ in size, the literature reports the mean accuracy per class; for others, top-1.
BY_CLASS = {"flowers", "pet", "pets", "caltech", "aircraft"}


@dataclass(frozen=True, eq=False)
class Downstream:
    """A labeled data set. Without `validation`, a part of `train` chooses the penalty of the classifier."""

    name: str
    train: Samples
    test: Samples
    validation: Samples | None = None

    def __post_init__(self) -> None:
        for split, samples in self.splits().items():
            if len(samples.classes) < 2 or int(samples.labels.min()) < 0:
                raise ValueError(f"{self.name} has samples without a class in {split}: there is nothing to classify")
            if samples.classes != self.train.classes:
                raise ValueError(f"{self.name} has other classes in {split} than in train: prepare it again")
        if len(self.train.labels.unique()) < 2:
            raise ValueError(f"{self.name} has a single class in train: give it a second one, or use more images")

    def splits(self) -> dict[str, Samples]:
        """The samples of each split."""
        known = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: samples for split, samples in known.items() if samples is not None}

    @property
    def customary(self) -> str:
        """The accuracy that the literature reports for this data set: "mean_per_class" or "top1"."""
        return "mean_per_class" if BY_CLASS & set(re.split("[^a-z]+", self.name.lower())) else "top1"


def load_downstream(name: str | Path, images: int | None = None, root: Path | None = None) -> Downstream:
    """A prepared or generated data set by name or path; at most the first `images` images of every split.

    It is tested on the split test, and val, if present, is used for validation; without test, it is tested on val.
    """
    there = known_splits(name, root)
    try:
        split = heldout_split(name, root)
    except NoHeldoutSplit:
        wanted = "put a folder test beside train, and prepare it"
        raise ValueError(f"{name} has neither a test nor a val split to classify: {wanted}") from None
    train, test = (_limited(data.load(name, part, root), images) for part in ("train", split))
    validation = None
    if split == "test" and "val" in there:
        validation = _limited(data.load(name, "val", root), images)
    called = train.name if isinstance(name, Path) or os.sep in name else name
    return Downstream(called, train, test, validation)


def check_names(downstreams: Sequence[Downstream]) -> None:
    """ValueError if two data sets have the same name, since results are stored by name."""
    names = [downstream.name for downstream in downstreams]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is given twice: give each data set once")
    if not names:
        raise ValueError("name at least one data set to transfer to")


def _limited(samples: Samples, images: int | None) -> Samples:
    return samples if images is None else samples.limit(min(images, len(samples)))
