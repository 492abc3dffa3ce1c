"""Samples: the inputs and labels of a split, generated or from a store."""

import dataclasses
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from care.data.class_rank import rank_within_class
from care.data.streamed.pictures import StreamedPictures
from care.randomness import epoch_order, sharded_order

INPUTS_AT_ONCE = 1000  # inputs copied or read at a time
SHARDS_AT_ONCE = 8  # shards that an epoch reads from at a time


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs, their labels and, for generated data, their factors of variation.

    `labels` index into `classes` and are −1 for samples without a class. `factors` are the numbers that generated
    samples were made from. The inputs of a store are memory-mapped and read-only: writing to them in place ends the
    process. `checksum` is that of the store. Sample i is `stored[i]`, or `stored[rows[i]]` in a subset of a larger set.
    Pictures that are not prepared are `streamed`: `inputs`, `take` and `to` decode all requested pictures at once,
    `batches` one batch after the other.
    """

    stored: UInt8[Tensor, "m 3 h w"] | Float32[Tensor, "m p 3"] | StreamedPictures
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    factors: dict[str, Float32[Tensor, "n ..."]] = field(default_factory=dict)
    name: str = "samples"
    checksum: str | None = None
    rows: Int64[Tensor, " n"] | None = None

    def __post_init__(self) -> None:
        inputs, n = self.stored, len(self.stored if self.rows is None else self.rows)
        images = inputs.dtype == torch.uint8 and inputs.ndim == 4 and inputs.shape[1] == 3
        clouds = inputs.dtype == torch.float32 and inputs.ndim == 3 and inputs.shape[2] == 3
        if not (images or clouds):
            raise ValueError(
                "inputs must be uint8 images [n, 3, h, w] or float32 point clouds [n, p, 3], "
                f"got {inputs.dtype} {list(inputs.shape)}"
            )
        for what, tensor in {"labels": self.labels, **self.factors}.items():
            if len(tensor) != n:
                raise ValueError(f"{n} inputs but {len(tensor)} {what}")
        _check_labels(self.labels, self.classes)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> UInt8[Tensor, "n 3 h w"] | Float32[Tensor, "n p 3"]:
        """All inputs; in a subset of a larger set they are copied into memory, at every call."""
        if isinstance(self.stored, StreamedPictures):
            return self.stored.index_select(0, torch.arange(len(self.stored)) if self.rows is None else self.rows)
        return self.stored if self.rows is None else self.stored.index_select(0, self.rows)

    @property
    def streamed(self) -> bool:
        """Whether the inputs are pictures that are decoded on demand."""
        return isinstance(self.stored, StreamedPictures)

    @property
    def nbytes(self) -> int:
        """The size of all inputs in memory."""
        return len(self) * math.prod(self.stored.shape[1:]) * self.stored.dtype.itemsize

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The size of one input: (height, width) of an image, (points,) of a cloud."""
        shape = self.stored.shape
        return tuple(shape[2:]) if len(shape) == 4 else (shape[1],)

    @property
    def device(self) -> torch.device:
        """The device of the samples."""
        return self.stored.device

    def limit(self, n: int) -> "Samples":
        """The first n samples, without copying."""
        if not 1 <= n <= len(self):
            raise ValueError(f"{self.name} has only {len(self)} samples: {n} cannot be taken")
        if isinstance(self.stored, StreamedPictures):
            return self.subset(torch.arange(n))
        rows = None if self.rows is None else self.rows[:n]
        needed = n if rows is None else int(rows.max()) + 1
        return self._with(self.stored[:needed], rows, lambda tensor: tensor[:n])

    def subset(self, indices: Int64[Tensor, " k"]) -> "Samples":
        """The samples at `indices`, whose inputs are not copied."""
        at = indices.to(self.device)
        rows = at if self.rows is None else self.rows[at]
        return self._with(self.stored, rows, lambda tensor: tensor.index_select(0, at))

    def take(self, indices: Int64[Tensor, " k"]) -> "Samples":
        """The samples at `indices`, copied into memory."""
        some = self.subset(indices)
        return dataclasses.replace(some, stored=some.inputs, rows=None)

    def to(self, device: torch.device | str) -> "Samples":
        """The same samples on another device; from a larger set, only their own inputs are copied."""
        there = torch.empty(0, device=device).device
        if isinstance(self.stored, Tensor) and (self.rows is None or there == self.device):
            return self._with(self.stored.to(there), self.rows, lambda tensor: tensor.to(there))
        rows = torch.arange(len(self)) if self.rows is None else self.rows
        return self._with(_copied(self.stored, rows, there), None, lambda tensor: tensor.to(there))

    def digest(self) -> str:
        """A digest that identifies the inputs and labels: the checksum of their store, or a hash of their bytes."""
        if self.checksum is not None:
            return self.checksum
        found, stored = hashlib.blake2b(digest_size=16), [self.stored] if isinstance(self.stored, Tensor) else []
        if isinstance(self.stored, StreamedPictures):
            found.update(self.stored.encoded.digest().encode())
        for tensor in (*stored, self.labels, *(() if self.rows is None else (self.rows,))):
            found.update(str(tensor.shape).encode())
            for block in tensor.split(INPUTS_AT_ONCE):
                found.update(block.cpu().contiguous().numpy())
        return found.hexdigest()

    def order(self, seed: int, epoch: int) -> Int64[Tensor, " n"]:
        """The random order in which an epoch visits the samples; samples in shards come a few shards at a time."""
        shards = self.stored.encoded.shards if isinstance(self.stored, StreamedPictures) else None
        if shards is None:
            return epoch_order(len(self), seed, epoch)
        return sharded_order(shards if self.rows is None else shards[self.rows], seed, epoch, SHARDS_AT_ONCE)

    def split_indices(self, per_class: int) -> tuple[Int64[Tensor, " t"], Int64[Tensor, " v"]]:
        """Indices of the training and of the validation samples, which are the last `per_class` of each class.

        A class with fewer than twice as many samples gives its last half. Both are in ascending order, so that the same
        samples always give the same split. Samples without a class are for training; if there are no classes at all,
        all samples count as one class.
        """
        # Classes count from 1 here; 0 are samples without a class, which are not held out.
        group = self.labels + 1 if self.classes else torch.ones_like(self.labels)
        sizes = group.bincount(minlength=2)
        followers = sizes[group] - 1 - rank_within_class(group)  # the number of later samples of the same class
        validation = (followers < (sizes // 2).clamp_max(per_class)[group]) & (group > 0)
        if per_class < 1 or not validation.any():
            raise ValueError(f"{self.name} has too few samples to hold out {per_class} per class for validation")
        return (~validation).nonzero()[:, 0], validation.nonzero()[:, 0]

    def split(self, per_class: int) -> tuple["Samples", "Samples"]:
        """Training and validation samples according to `split_indices`; the inputs are not copied."""
        train, validation = self.split_indices(per_class)
        return self.subset(train), self.subset(validation)

    def _with(
        self, stored: Tensor | StreamedPictures, rows: Tensor | None, change: Callable[[Tensor], Tensor]
    ) -> "Samples":
        factors = {name: change(tensor) for name, tensor in self.factors.items()}
        return dataclasses.replace(self, stored=stored, rows=rows, labels=change(self.labels), factors=factors)


def shortage(validation: Samples, per_class: int) -> str | None:
    """A message if classes were too small to give `per_class` samples for validation, and gave half of theirs."""
    labels, classes = validation.labels, max(1, len(validation.classes))
    fewer = int((torch.bincount(labels.clamp(min=0), minlength=classes) < per_class).sum())
    if not fewer:
        return None
    if not validation.classes:
        return f"half of the samples are held out for validation, {len(labels)} instead of {per_class}"
    gave = f"{len(labels):,} samples in all"
    return f"{fewer} of {classes} classes have fewer than {2 * per_class} samples, so half of each is held out: {gave}"


def _copied(stored: Tensor | StreamedPictures, rows: Int64[Tensor, " n"], device: torch.device) -> Tensor:
    """Some of the inputs on another device."""
    inputs = torch.empty((len(rows), *stored.shape[1:]), dtype=stored.dtype, device=device)
    for part, at in zip(inputs.split(INPUTS_AT_ONCE), rows.split(INPUTS_AT_ONCE), strict=True):
        part.copy_(stored.index_select(0, at))
    return inputs


def _check_labels(labels: Int64[Tensor, " n"], classes: tuple[str, ...]) -> None:
    if len(labels) and not (labels.min() >= -1 and labels.max() < len(classes)):
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}, but there are {len(classes)} classes")
