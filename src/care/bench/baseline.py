"""The same training as it is usually written: a DataLoader, torchvision on one picture at a time, a forward per view.

Augmentations are drawn for each picture. CARE shares an augmentation within a chunk, which torchvision has no easy way
to do; the work is the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from care.augment import ImagePolicy
from care.bench.settings import Settings
from care.losses import equivariance, info_nce
from care.objective import build_encoder, policy_for, view_plan
from care.train.state import channel_statistics

MOST_WORKERS = 16
# The loader never ends, so that restarting it is not measured.
ENDLESS = 10**9
PICTURES = 1024


def torchvision_transform(policy: ImagePolicy) -> Callable[[Any], Tensor]:
    """`policy` for one picture: a PIL image or a uint8 tensor in, a float tensor in [0, 1] out."""
    from torchvision.transforms import v2  # takes seconds to import: only where it is needed

    color = v2.ColorJitter(policy.brightness, policy.contrast, policy.saturation, policy.hue)
    transform: Callable[[Any], Tensor] = v2.Compose(
        [
            v2.RandomResizedCrop(policy.size, policy.scale, policy.ratio, antialias=True),
            v2.RandomHorizontalFlip(policy.flip),
            v2.RandomApply([color], policy.color),
            v2.RandomGrayscale(policy.gray),
            v2.RandomApply([v2.GaussianBlur(policy.kernel_size, policy.sigma)], policy.blur),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    return transform


def pictures(images: Tensor) -> list[Image.Image]:
    """Images [n, 3, h, w] as PIL images."""
    return [Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()) for image in images.cpu()]


class PictureViews(Dataset[list[Tensor]]):
    """`count` views of each picture, each with its own augmentation."""

    def __init__(self, images: Tensor, policy: ImagePolicy, count: int) -> None:
        self.pictures, self.transform, self.count = pictures(images), torchvision_transform(policy), count

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> list[Tensor]:
        return [self.transform(self.pictures[index]) for _ in range(self.count)]


class Baseline:
    """A training loop that makes one step per call; `workers` processes load the data, or none."""

    def __init__(self, settings: Settings, device: torch.device, workers: int, **chosen: Any) -> None:
        config, samples = settings.config(**chosen), settings.random_samples()
        input_shape = (settings.size, settings.size)
        self.device, self.workers = device, workers
        self.encoder = build_encoder(config, input_shape, **channel_statistics(samples)).to(device).train()
        self.values = config.flat()
        self.optimizer = torch.optim.Adam(
            self.encoder.parameters(), config.learning_rate, weight_decay=config.weight_decay
        )
        count = len(view_plan(config, config.batch_size).views)
        images = settings.random_images(max(PICTURES, settings.batch_size))
        data = PictureViews(images, policy_for(config.policy, config.size), count)  # type: ignore[arg-type]
        self.batches = self._endless(data, settings.batch_size)

    def __call__(self) -> Tensor:
        """One step; returns its loss."""
        views = [view.to(self.device, non_blocking=True) for view in next(self.batches)]
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            z = [self.encoder(view) for view in views]
            loss = self._loss(*z)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _loss(self, z1: Tensor, z2: Tensor, *chunked: Tensor) -> Tensor:
        """L_InfoNCE, or L_CARE = L_InfoNCE + λ L_equi where there are views for it."""
        loss = info_nce(z1, z2, temperature=self.values["temperature"])
        if not chunked:
            return loss
        e1, e2 = chunked
        return loss + self.values["care_weight"] * equivariance(e1, e2, self.values["chunks"])

    def _endless(self, data: PictureViews, batch: int) -> Iterator[list[Tensor]]:
        sampler = RandomSampler(data, replacement=True, num_samples=ENDLESS)
        pinned = self.device.type == "cuda"
        return iter(DataLoader(data, batch, sampler=sampler, num_workers=self.workers, pin_memory=pinned))
