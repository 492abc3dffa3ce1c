"""Corruptions of images: our own augmentations, and noise, each in five strengths."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from care.augment import ImageParameters, changed
from care.randomness import generator_for

# The strengths, from weak to strong: factors of brightness, contrast and saturation (0 is gray), a fraction of
# the hue circle, the width of the blur as a fraction of the view's side, the level from which pixels are inverted, the
# area of the central crop, and the standard deviation of Gaussian noise on pixels in [0, 1].
CORRUPTIONS: dict[str, tuple[float, ...]] = {
    "brightness": (0.8, 0.6, 0.4, 0.2, 0.1),
    "contrast": (0.8, 0.6, 0.4, 0.2, 0.1),
    "saturation": (0.8, 0.6, 0.4, 0.2, 0.0),
    "hue": (0.1, 0.2, 0.3, 0.4, 0.5),
    "blur": (1 / 64, 1 / 32, 3 / 64, 1 / 16, 3 / 32),
    "solarize": (0.9, 0.7, 0.5, 0.3, 0.1),
    "crop": (0.8, 0.6, 0.4, 0.2, 0.08),
    "noise": (0.02, 0.05, 0.1, 0.2, 0.4),
}

NOISES = 64  # different noise images: image i gets number i mod 64


def corrupted(clean: ImageParameters, corruption: str, strength: float) -> ImageParameters:
    """The clean view, corrupted. Noise is not an augmentation: `noisy` adds it to the view."""
    if corruption in ("brightness", "contrast", "hue"):
        return changed(clean, {corruption: strength})
    if corruption == "blur":
        return changed(clean, {"blur": strength * clean.size})
    if corruption == "crop":
        return changed(clean, {"zoom": strength**0.5})
    if corruption == "saturation":
        return dataclasses.replace(clean, saturation=torch.full_like(clean.saturation, strength))
    if corruption == "solarize":
        return dataclasses.replace(clean, solarize=torch.ones_like(clean.solarize), threshold=strength)
    return clean


def noisy(
    model: Callable[[Tensor], Tensor], deviation: float, size: int, device: torch.device, seed: int
) -> Callable[[Tensor], Tensor]:
    """x ↦ model(clamp(x + ε)) with ε Gaussian. Images must come in order, so that image i always has the same noise."""
    noise = torch.randn(NOISES, 3, size, size, generator=generator_for("cpu", seed, "noise")).to(device)
    seen = 0

    def with_noise(images: Tensor) -> Tensor:
        nonlocal seen
        rows = torch.arange(seen, seen + len(images), device=images.device) % NOISES
        seen += len(images)
        return model((images + deviation * noise[rows]).clamp(0, 1))

    return with_noise
