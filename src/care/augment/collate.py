"""Augmentations for your own training loop: a `collate_fn` for a `DataLoader` that draws them for every batch."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import default_collate, get_worker_info

from care.augment.apply import apply
from care.augment.images import ImageParameters
from care.augment.policy import ImagePolicy
from care.randomness import generator_for

Views = tuple[Float[Tensor, "n 3 size size"], ...]


@dataclass(frozen=True, eq=False)
class AugmentedBatch:
    """The pictures of a batch and the augmentations drawn for them; `views` applies these.

    `per_sample` has one augmentation per picture for every view, `per_chunk` one per chunk, repeated. `labels`
    are those of the pictures, if there are any.
    """

    images: UInt8[Tensor, "n 3 h w"] | Float[Tensor, "n 3 h w"]
    per_sample: tuple[ImageParameters, ...]
    per_chunk: tuple[ImageParameters, ...]
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)

    def views(self) -> tuple[Views, Views]:
        """(views per sample, views per chunk), made on the device where the batch is."""
        drawn = (self.per_sample, self.per_chunk)
        per_sample, per_chunk = (tuple(apply(self.images, p) for p in parameters) for parameters in drawn)
        return per_sample, per_chunk

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "AugmentedBatch":
        """The same batch on another device: pictures and parameters are moved, not the views, which are larger."""
        return self._map(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "AugmentedBatch":
        """The same batch in pinned memory, for `DataLoader(pin_memory=True)`."""
        return self._map(lambda part: part.pin_memory())

    def _map(self, change: Callable[[Any], Any]) -> "AugmentedBatch":
        drawn = {name: tuple(change(p) for p in getattr(self, name)) for name in ("per_sample", "per_chunk")}
        labels = None if self.labels is None else change(self.labels)
        return dataclasses.replace(self, images=change(self.images), labels=labels, **drawn)


class ChunkCollate:
    """Collates pictures of one size, or (picture, label) pairs, into an `AugmentedBatch`.

    A batch consists of `chunks` chunks of consecutive pictures. `views` augmentations per picture are drawn from
    `policy`, and `chunk_views` per chunk from `chunk_policy` (default: `policy`). Pictures are PIL images or tensors
    [3, h, w], uint8 or floating point in [0, 1].

    The augmentations depend on `seed`, on the number of the batch and, in a worker, on the DataLoader's seed for the
    epoch, which torch's global seed or the DataLoader's `generator` determines. The number of workers matters only if
    they are persistent. Processes that train together need different seeds.
    """

    def __init__(
        self,
        policy: ImagePolicy,
        chunks: int,
        *,
        views: int = 2,
        chunk_views: int = 2,
        chunk_policy: ImagePolicy | None = None,
        seed: int = 0,
    ) -> None:
        self.policy, self.chunk_policy = policy, chunk_policy or policy
        self.chunks, self.views, self.chunk_views = chunks, views, chunk_views
        self.seed, self.collated = seed, 0

    def __call__(self, items: Sequence[Any]) -> AugmentedBatch:
        """The batch with newly drawn augmentations."""
        images, labels = _stacked(items)
        n, input_shape = len(images), (images.shape[2], images.shape[3])
        if self.chunk_views and n % self.chunks:
            hint = "DataLoader(drop_last=True) leaves out a smaller last batch"
            raise ValueError(f"a batch of {n} does not fall into {self.chunks} chunks: choose another size; {hint}")
        generator = generator_for("cpu", self.seed, "collate", *self._place())
        per_sample = tuple(self.policy.sample(n, input_shape, generator) for _ in range(self.views))
        per_chunk = tuple(
            self.chunk_policy.sample(self.chunks, input_shape, generator).repeat(n // self.chunks)
            for _ in range(self.chunk_views)
        )
        return AugmentedBatch(images, per_sample, per_chunk, labels)

    def _place(self) -> tuple[int, int]:
        """(the DataLoader's seed for the epoch, the batch's number in it); outside workers (0, the overall number).

        Worker w of W gets the batches w, w + W, w + 2W …, and for every epoch a new copy of this object and a new seed.
        A persistent worker keeps both and continues counting, so the next epoch has new augmentations, too.
        """
        worker, count = get_worker_info(), self.collated
        self.collated += 1
        return (0, count) if worker is None else (worker.seed - worker.id, worker.id + count * worker.num_workers)


def _stacked(items: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
    """All pictures and, if every picture has one, all labels."""
    pairs = [item if isinstance(item, tuple | list) else (item,) for item in items]
    images = [_tensor(pair[0]) for pair in pairs]
    if len(sizes := {tuple(image.shape) for image in images}) > 1:
        raise ValueError(f"pictures of one batch differ in size, {sorted(sizes)}: resize them in the data set")
    labels = default_collate([pair[1] for pair in pairs]) if all(len(pair) > 1 for pair in pairs) else None
    return torch.stack(images), labels


def _tensor(picture: Any) -> Tensor:
    if isinstance(picture, Image.Image):
        return torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)
    if not isinstance(picture, Tensor) or picture.ndim != 3:
        raise ValueError(f"pictures must be PIL images or tensors [3, height, width], got {type(picture).__name__}")
    return picture
