"""Policies for images: which augmentations are drawn, and how often."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from care.augment.boxes import CROP_TRIES, central_box, central_boxes, random_boxes
from care.augment.images import ImageParameters, identity
from care.augment.values import device_of

Family = Literal["crop", "flip", "color", "gray", "blur", "solarize"]

# How many uniform numbers each part of an augmentation takes. Every augmentation takes all of them, so two policies
# that differ in one probability draw the same values for everything else.
DRAWS = {
    "identity": 1,
    "crop": 1, "area": CROP_TRIES, "aspect": CROP_TRIES, "top": 1, "left": 1,
    "flip": 1,
    "color": 1, "order": 4, "brightness": 1, "contrast": 1, "saturation": 1, "hue": 1,
    "gray": 1,
    "blur": 1, "sigma": 1,
    "solarize": 1,
}  # fmt: skip

# Which of these numbers belong to which family.
OF_FAMILY: dict[Family, tuple[str, ...]] = {
    "crop": ("crop", "area", "aspect", "top", "left"),
    "flip": ("flip",),
    "color": ("color", "order", "brightness", "contrast", "saturation", "hue"),
    "gray": ("gray",),
    "blur": ("blur", "sigma"),
    "solarize": ("solarize",),
}


@dataclass(frozen=True)
class ImagePolicy:
    """A distribution over augmentations of images. `crop`, `flip`, `color`, `gray`, `blur`, `solarize` and `identity`
    are probabilities; color factors are drawn from [1 − b, 1 + b], and the hue shift, as a fraction of the hue circle,
    from [−h, h].

    Without a random crop the view is the central square of `center` times the shorter side. With probability
    `identity`, the augmentation returns this square and changes nothing else.
    """

    size: int
    crop: float = 1.0
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    center: float = 1.0
    flip: float = 0.5
    color: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    gray: float = 0.2
    blur: float = 0.5
    sigma: tuple[float, float] = (0.1, 2.0)
    kernel_size: int = 3
    solarize: float = 0.0
    threshold: float = 0.5
    identity: float = 0.0

    def __post_init__(self) -> None:
        for name in (*OF_FAMILY, "identity"):
            _require(0 <= getattr(self, name) <= 1, f"{name} is a probability, got {getattr(self, name)}")
        for name in ("brightness", "contrast", "saturation"):
            _require(0 <= getattr(self, name) <= 1, f"{name} must be in [0, 1], got {getattr(self, name)}")
        _require(0 <= self.hue <= 0.5, f"hue is a fraction of the hue circle and must be in [0, 0.5], got {self.hue}")
        _require(0 < self.scale[0] <= self.scale[1] <= 1, f"scale must be 0 < low ≤ high ≤ 1, got {self.scale}")
        for name in ("ratio", "sigma"):
            low, high = getattr(self, name)
            _require(0 < low <= high, f"{name} must be 0 < low ≤ high, got {(low, high)}")
        _require(0 < self.center <= 1, f"center must be in (0, 1], got {self.center}")
        _require(self.size >= 1, f"size must be at least 1 pixel, got {self.size}")
        _require(self.kernel_size % 2 == 1, f"kernel_size must be odd, got {self.kernel_size}")
        _require(self.kernel_size < 2 * self.size, f"a blur of {self.kernel_size} px needs more than {self.size} px")

    def only(self, *families: Family) -> "ImagePolicy":
        """This policy with every other family of augmentations switched off."""
        if unknown := set(families) - set(OF_FAMILY):
            raise ValueError(f"unknown augmentation {', '.join(sorted(unknown))}: choose from {', '.join(OF_FAMILY)}")
        off: dict[str, Any] = {name: 0.0 for name in OF_FAMILY if name not in families}
        return dataclasses.replace(self, **off)

    def certain(self) -> "ImagePolicy":
        """This policy with every possible family drawn for certain: no draw leaves an image unchanged."""
        always: dict[str, Any] = {name: 1.0 for name in OF_FAMILY if getattr(self, name) > 0}
        return dataclasses.replace(self, identity=0.0, **always)

    def families(self) -> tuple[Family, ...]:
        """The families of augmentations that this policy may draw."""
        return tuple(name for name in OF_FAMILY if getattr(self, name) > 0)

    def resized(self, size: int) -> "ImagePolicy":
        """This policy for views of another size; the blur kernel scales with it, to an odd number of pixels."""
        if self.kernel_size == 1:  # no blur
            return dataclasses.replace(self, size=size)
        kernel_size = max(3, round(self.kernel_size * size / self.size) // 2 * 2 + 1)
        return dataclasses.replace(self, size=size, kernel_size=kernel_size)

    def unchanged(self, n: int, input_shape: tuple[int, int]) -> ImageParameters:
        """n copies of the un-augmented view: the central square at the policy's size."""
        return identity(n, input_shape, self.size, self.center)

    def sample(self, n: int, input_shape: tuple[int, int], generator: torch.Generator) -> ImageParameters:
        """Draw n independent augmentations for images of `input_shape` = (height, width), on the generator's device."""
        return self.from_numbers(self.random_numbers(n, input_shape, generator), input_shape)

    def random_numbers(self, n: int, input_shape: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, ...]:
        """The uniform numbers in [0, 1) that determine n augmentations."""
        return (torch.rand(n, sum(DRAWS.values()), generator=generator, device=device_of(generator)),)

    def sharing(self, numbers: tuple[Tensor, ...], others: tuple[Tensor, ...], family: Family) -> tuple[Tensor, ...]:
        """`numbers`, with one family's taken from `others`: the two augmentations agree in that family alone."""
        widths = list(DRAWS.values())
        own, theirs = (uniform.split(widths, dim=1) for (uniform,) in (numbers, others))
        parts = zip(DRAWS, own, theirs, strict=True)
        return (torch.cat([other if name in OF_FAMILY[family] else mine for name, mine, other in parts], 1),)

    def from_numbers(
        self, numbers: tuple[Tensor, ...], input_shape: tuple[int, int], aspect: Tensor | None = None
    ) -> ImageParameters:
        """The augmentations that `random_numbers` determine. Nothing here is random, so it can be compiled.

        `aspect` is W/H of each whole picture that was squeezed into a square (`care.whole_pictures`).
        """
        (uniform,) = numbers
        u = {name: columns.squeeze(1) if columns.shape[1] == 1 else columns
             for name, columns in zip(DRAWS, uniform.split(list(DRAWS.values()), dim=1), strict=True)}  # fmt: skip
        changed = u["identity"] >= self.identity
        color = changed & (u["color"] < self.color)
        cropped = random_boxes(u["area"], u["aspect"], u["top"], u["left"], input_shape, self.scale, self.ratio, aspect)
        central: tuple[Tensor | int, ...] = central_box(input_shape, self.center)
        if aspect is not None:
            central = central_boxes(input_shape, self.center, aspect)
        top, left, height, width = (
            torch.where(changed & (u["crop"] < self.crop), random, middle)
            for random, middle in zip(cropped, central, strict=True)
        )
        return ImageParameters(
            top=top,
            left=left,
            height=height,
            width=width,
            flip=changed & (u["flip"] < self.flip),
            order=u["order"].argsort(dim=1),
            brightness=torch.where(color, _between(u["brightness"], 1 - self.brightness, 1 + self.brightness), 1.0),
            contrast=torch.where(color, _between(u["contrast"], 1 - self.contrast, 1 + self.contrast), 1.0),
            saturation=torch.where(color, _between(u["saturation"], 1 - self.saturation, 1 + self.saturation), 1.0),
            hue=torch.where(color, _between(u["hue"], -self.hue, self.hue), 0.0),
            gray=changed & (u["gray"] < self.gray),
            blur=changed & (u["blur"] < self.blur),
            sigma=_between(u["sigma"], *self.sigma),
            solarize=changed & (u["solarize"] < self.solarize),
            input_shape=input_shape,
            size=self.size,
            kernel_size=self.kernel_size,
            threshold=self.threshold,
        )


def _between(u: Tensor, low: float, high: float) -> Tensor:
    return low + u * (high - low)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
