"""Rows of `care bench augment`: drawing and applying augmentations, four views of a batch at once."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from care.augment import ImagePolicy, apply, can_fuse
from care.augment.apply import augment_images
from care.bench.baseline import pictures, torchvision_transform
from care.bench.clock import time_calls
from care.bench.messages import Say, then_measuring, under
from care.bench.results import Row, Table
from care.bench.settings import Settings
from care.objective import policy_for
from care.train.graph import CALLS_BEFORE_CAPTURE, Graph

VIEWS = 4
TORCHVISION, KORNIA = "torchvision v2, one by one", "kornia"
IN_A_STEP = "care, as in a training step"
NO_KORNIA = "kornia is not installed"


def measure_augmenting(settings: Settings, say: Say) -> Table:
    """Each way to draw and apply the same distribution of augmentations, on the same images."""
    device = torch.device(settings.device)
    policy = policy_for("cifar10", settings.size)
    assert isinstance(policy, ImagePolicy)
    images = settings.random_images(VIEWS * settings.batch_size).to(device)
    ways = dict(_ways(settings, policy, images))
    rows: list[Row] = []
    for name, way in ways.items():
        say(f"{name}: {len(images):,} views of {settings.size} px")
        warmup = CALLS_BEFORE_CAPTURE + 2 if name == IN_A_STEP else 2
        begun = then_measuring(under(say, name), "call", settings.seconds)
        timing = time_calls(way, device, settings.seconds, warmup, begun=begun)
        milliseconds = 1024e3 * timing.median / len(images)
        rows.append({"name": name, "ms_per_1024": milliseconds, "views": len(images), "calls": timing.calls})
    theirs = next(row for row in rows if row["name"].startswith(TORCHVISION))["ms_per_1024"]
    rows = [{**row, "times_torchvision": theirs / row["ms_per_1024"]} for row in rows]
    notes = ["Drawing the augmentations is part of the time. All have the probabilities and ranges of `cifar10`."]
    return Table("augment", "Augmentations", tuple(rows), (*notes, *([] if KORNIA in ways else [NO_KORNIA])))


def _ways(settings: Settings, policy: ImagePolicy, images: Tensor) -> Iterator[tuple[str, Callable[[], object]]]:
    generator, input_shape, n = torch.Generator(images.device), (settings.size, settings.size), len(images)

    def from_numbers(images: Tensor, numbers: tuple[Tensor, ...]) -> Tensor:
        return augment_images(images, policy.from_numbers(numbers, input_shape))

    yield "care, eager", lambda: augment_images(images, policy.sample(n, input_shape, generator))
    if settings.compile:
        compiled = torch.compile(from_numbers, dynamic=False)
        yield "care, compiled", lambda: compiled(images, policy.random_numbers(n, input_shape, generator))
    if can_fuse(images, policy.sample(n, input_shape, generator)):
        yield "care, fused kernels", lambda: apply(images, policy.sample(n, input_shape, generator))
    if images.is_cuda and settings.compile:
        fused = torch.compile(lambda x, numbers: apply(x, policy.from_numbers(numbers, input_shape)), dynamic=False)
        graph = Graph(lambda x: fused(x, policy.random_numbers(n, input_shape, generator)), [generator])
        yield IN_A_STEP, lambda: graph(images)
    yield _torchvision(policy, images)
    if importlib.util.find_spec("kornia") is not None:
        network = kornia_transform(policy)
        yield KORNIA, lambda: network(images.float() / 255)


def _torchvision(policy: ImagePolicy, images: Tensor) -> tuple[str, Callable[[], object]]:
    """On PIL pictures in this process, or on tensors on the GPU."""
    transform = torchvision_transform(policy)
    if images.is_cuda:
        return f"{TORCHVISION}, on the GPU", lambda: [transform(image) for image in images]
    from_pil = pictures(images)
    return f"{TORCHVISION}, PIL", lambda: [transform(picture) for picture in from_pil]


def kornia_transform(policy: ImagePolicy) -> nn.Module:
    """`policy` for a batch of images in [0, 1], by kornia."""
    augmentation = importlib.import_module("kornia.augmentation")  # optional, and not for type checkers
    return nn.Sequential(
        augmentation.RandomResizedCrop((policy.size, policy.size), scale=policy.scale, ratio=policy.ratio),
        augmentation.RandomHorizontalFlip(p=policy.flip),
        augmentation.ColorJitter(policy.brightness, policy.contrast, policy.saturation, policy.hue, p=policy.color),
        augmentation.RandomGrayscale(p=policy.gray),
        augmentation.RandomGaussianBlur((policy.kernel_size, policy.kernel_size), policy.sigma, p=policy.blur),
    )
