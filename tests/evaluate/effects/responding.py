"""Inputs and encoders for tests of `care.measure`: how they respond to augmentations is known."""

import torch

from care.augment import ImagePolicy
from care.data import generate_chains

FLIPS = ImagePolicy(size=6, kernel_size=1).only("flip").certain()


def pictures(n=400, size=6):
    return torch.randint(256, (n, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def clouds(n=300):
    return generate_chains(n, seed=0, points=8).points


def flatten(x):
    """Rotating a cloud rotates every point; flipping a picture swaps pixels: both orthogonal on what is flattened."""
    return x.flatten(1) - 0.5 * (x.ndim == 4)


def lengths(clouds):
    return clouds.norm(dim=2)
