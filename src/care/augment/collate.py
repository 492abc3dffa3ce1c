"""Augmentations for the loop of somebody else: a `collate_fn` of a `DataLoader` that draws them for every batch."""

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
    """The pictures of a batch, and the augmentations that were drawn for them, which `views` applies.

    `per_sample` has one augmentation per picture for every view, `per_chunk` one per chunk, repeated. `labels` is what
    came with the pictures, if anything did.
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
        """The same batch on another device: bytes and parameters are moved, and not the views, which are larger."""
        return self._map(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "AugmentedBatch":
        """The same batch in pinned memory, for `DataLoader(pin_memory=True)`."""
        return self._map(lambda part: part.pin_memory())

    def _map(self, change: Callable[[Any], Any]) -> "AugmentedBatch":
        drawn = {name: tuple(change(p) for p in getattr(self, name)) for name in ("per_sample", "per_chunk")}
        labels = None if self.labels is None else change(self.labels)
        return dataclasses.replace(self, images=change(self.images), labels=labels, **drawn)


class ChunkCollate:
    """Collates pictures, all of one size, or (picture, label) into an `AugmentedBatch`.

    `views` augmentations per picture are drawn from `policy`, and `chunk_views` per chunk, from `chunk_policy` if there
    is one; a batch falls into `chunks` chunks of neighbors. Pictures are tensors [3, h, w], uint8 or floating point in
    [0, 1], or PIL.

    What is drawn is a function of `seed`, of the number of the batch and, in a worker, of the seed that the DataLoader
    has drawn for the epoch, which torch's own seed, or a `generator` of its own, fixes. The number of workers matters
    only if they are persistent. Several processes that train together need a seed each.
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
        """The batch, with augmentations that no other batch has."""
        images, labels = _stacked(items)
        n, source = len(images), (images.shape[2], images.shape[3])
        if self.chunk_views and n % self.chunks:
            hint = "DataLoader(drop_last=True) leaves out a last batch that is smaller"
            raise ValueError(f"a batch of {n} does not fall into {self.chunks} chunks: choose another size; {hint}")
        generator = generator_for("cpu", self.seed, "collate", *self._place())
        per_sample = tuple(self.policy.sample(n, source, generator) for _ in range(self.views))
        per_chunk = tuple(
            self.chunk_policy.sample(self.chunks, source, generator).repeat(n // self.chunks)
            for _ in range(self.chunk_views)
        )
        return AugmentedBatch(images, per_sample, per_chunk, labels)

    def _place(self) -> tuple[int, int]:
        """(the DataLoader's seed of the epoch, the number of the batch in it); outside of workers (0, of all batches).

        Worker w of W gets the batches w, w + W, w + 2W … and a new copy of this for every epoch, with another seed. A
        persistent one keeps both and goes on counting, so that the batches of the next epoch are others, too.
        """
        worker, count = get_worker_info(), self.collated
        self.collated += 1
        return (0, count) if worker is None else (worker.seed - worker.id, worker.id + count * worker.num_workers)


def _stacked(items: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
    """All pictures and, where each came with one, all labels."""
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
        raise ValueError(f"a picture is PIL or a tensor [3, height, width], not a {type(picture).__name__}")
    return picture
