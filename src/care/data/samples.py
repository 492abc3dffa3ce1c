"""Samples: the inputs and labels of a split, generated or from a store."""

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs, their labels and, for generated data, their factors of variation.

    `labels` index into `classes` and are −1 where a sample has no class. `factors` are the numbers that a generated
    sample was made from. The inputs of a store are memory-mapped and read-only: writing to them in place ends the
    process. `checksum` is that of the store.
    """

    inputs: UInt8[Tensor, "n 3 h w"] | Float32[Tensor, "n p 3"]
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    factors: dict[str, Float32[Tensor, "n ..."]] = field(default_factory=dict)
    name: str = "samples"
    checksum: str | None = None

    def __post_init__(self) -> None:
        images = self.inputs.dtype == torch.uint8 and self.inputs.ndim == 4 and self.inputs.shape[1] == 3
        clouds = self.inputs.dtype == torch.float32 and self.inputs.ndim == 3 and self.inputs.shape[2] == 3
        if not (images or clouds):
            raise ValueError(
                "inputs must be uint8 images [n, 3, h, w] or float32 point clouds [n, p, 3], "
                f"got {self.inputs.dtype} {list(self.inputs.shape)}"
            )
        for what, tensor in {"labels": self.labels, **self.factors}.items():
            if len(tensor) != len(self.inputs):
                raise ValueError(f"{len(self.inputs)} inputs but {len(tensor)} {what}")
        _check_labels(self.labels, self.classes)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def source(self) -> tuple[int, ...]:
        """The size of one input: (height, width) of an image, (points,) of a cloud."""
        shape = self.inputs.shape
        return tuple(shape[2:]) if len(shape) == 4 else (shape[1],)

    def limit(self, n: int) -> "Samples":
        """The first n samples, without copying."""
        if not 1 <= n <= len(self):
            raise ValueError(f"{self.name} has {len(self)} samples, {n} cannot be taken")
        return self._map(lambda tensor: tensor[:n])

    def take(self, indices: Int64[Tensor, " m"]) -> "Samples":
        """The samples at `indices`, copied into memory."""
        return self._map(lambda tensor: tensor.index_select(0, indices.to(tensor.device)))

    def to(self, device: torch.device | str) -> "Samples":
        """The same samples on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def digest(self) -> str:
        """What tells these inputs and labels from others: the checksum of their store, or one of their bytes."""
        if self.checksum is not None:
            return self.checksum
        found = hashlib.blake2b(digest_size=16)
        for tensor in (self.inputs, self.labels):
            found.update(str(tensor.shape).encode())
            for block in tensor.split(1000):
                found.update(block.cpu().contiguous().numpy())
        return found.hexdigest()

    def split_indices(self, per_class: int) -> tuple[Int64[Tensor, " t"], Int64[Tensor, " v"]]:
        """Indices of the training and of the validation samples, which are the last `per_class` of each class.

        Both are in ascending order, so that the same samples always give the same split. Samples without a class are
        for training. Where there are no classes at all, the last `per_class` samples are for validation.
        """
        validation = torch.zeros_like(self.labels, dtype=torch.bool)
        if not self.classes:
            if not 1 <= per_class < len(self):
                some = f"{per_class} of the {len(self)} samples"
                raise ValueError(f"{some} cannot be validation: choose fewer, or none")
            validation[-per_class:] = True
        for label, name in enumerate(self.classes):
            members = (self.labels == label).nonzero()[:, 0]
            if not 1 <= per_class < len(members):
                some = f"{per_class} of the {len(members)} samples of class {name!r}"
                raise ValueError(f"{some} cannot be validation: choose fewer, or none")
            validation[members[-per_class:]] = True
        return (~validation).nonzero()[:, 0], validation.nonzero()[:, 0]

    def split(self, per_class: int) -> tuple["Samples", "Samples"]:
        """Training and validation samples of `split_indices`, copied into memory."""
        train, validation = self.split_indices(per_class)
        return self.take(train), self.take(validation)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Samples":
        factors = {name: change(tensor) for name, tensor in self.factors.items()}
        return dataclasses.replace(self, inputs=change(self.inputs), labels=change(self.labels), factors=factors)


def _check_labels(labels: Int64[Tensor, " n"], classes: tuple[str, ...]) -> None:
    if len(labels) and not (labels.min() >= -1 and labels.max() < len(classes)):
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}, there are {len(classes)} classes")
