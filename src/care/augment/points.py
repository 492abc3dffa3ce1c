"""Augmentations of 3-D point clouds as values: rotation, scale, jitter."""

import math
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment.values import Parameters, device_of


@dataclass(frozen=True, repr=False, eq=False)
class PointParameters(Parameters):
    """n augmentations of clouds of p points: scale, then rotate, then move each point by its `jitter`.

    The jitter is part of the value: two clouds that share an augmentation share the displacement of point k.
    """

    rotation: Float[Tensor, "n 3 3"]
    scale: Float[Tensor, " n"]
    jitter: Float[Tensor, "n p 3"]
    input_shape: tuple[int]

    def steps(self, index: int) -> list[str]:
        """What one augmentation does, a phrase per operation, in the order of application."""
        R, scale, jitter = self.rotation[index].double(), self.scale[index], self.jitter[index]
        degrees = torch.rad2deg(torch.arccos(((R.trace() - 1) / 2).clamp(-1, 1)))
        parts = [
            (scale != 1, f"scale ×{scale:.2f}"),
            (degrees > 0.5, f"rotate {degrees:.0f}°"),
            (jitter.any(), f"jitter {jitter.square().mean().sqrt():.3f}"),
        ]
        return [text for applied, text in parts if applied]


@dataclass(frozen=True)
class PointPolicy:
    """A distribution over augmentations of point clouds.

    Rotations are uniform on SO(3) (Haar), scales log-uniform in `scale`, jitter is N(0, jitter²) per coordinate. With
    probability `identity` nothing is changed.
    """

    rotate: bool = True
    scale: tuple[float, float] = (1.0, 1.0)
    jitter: float = 0.0
    identity: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale must be 0 < low ≤ high, got {self.scale}")
        if self.jitter < 0:
            raise ValueError(f"jitter must not be negative, got {self.jitter}")
        if not 0 <= self.identity <= 1:
            raise ValueError(f"identity is a probability, got {self.identity}")

    def unchanged(self, n: int, input_shape: tuple[int]) -> PointParameters:
        """n copies of the augmentation that changes nothing."""
        return PointParameters(
            torch.eye(3).repeat(n, 1, 1), torch.ones(n), torch.zeros(n, *input_shape, 3), input_shape
        )

    def sample(self, n: int, input_shape: tuple[int], generator: torch.Generator) -> PointParameters:
        """Draw n independent augmentations for clouds of `input_shape` = (p,) points, on the generator's device."""
        return self.from_numbers(self.random_numbers(n, input_shape, generator), input_shape)

    def random_numbers(self, n: int, input_shape: tuple[int], generator: torch.Generator) -> tuple[Tensor, ...]:
        """The random numbers that determine n augmentations: uniform, quaternions, uniform, normal noise."""
        here = device_of(generator)
        uniform, normal = (partial(f, generator=generator, device=here) for f in (torch.rand, torch.randn))
        return uniform(n), normal(n, 4), uniform(n), normal(n, *input_shape, 3)

    def from_numbers(self, numbers: tuple[Tensor, ...], input_shape: tuple[int]) -> PointParameters:
        """The augmentations that `random_numbers` determine. Nothing here is random, so it can be compiled."""
        changed, quaternion, u, noise = numbers[0] >= self.identity, *numbers[1:]
        low, high = (math.log(end) for end in self.scale)
        scale, noise = (low + u * (high - low)).exp(), noise * self.jitter
        turned = changed if self.rotate else torch.zeros_like(changed)
        rotation = rotation_from_quaternion(quaternion)
        device = rotation.device
        return PointParameters(
            rotation=torch.where(turned[:, None, None], rotation, torch.eye(3, device=device)),
            scale=torch.where(changed, scale, 1.0),
            jitter=torch.where(changed[:, None, None], noise, 0.0),
            input_shape=input_shape,
        )


def rotation_from_quaternion(quaternion: Float[Tensor, "n 4"]) -> Float[Tensor, "n 3 3"]:
    """R = I + 2w[v]× + 2[v]×² for the unit quaternion (w, v). Gaussian quaternions give Haar rotations."""
    w, x, y, z = torch.nn.functional.normalize(quaternion, dim=1).unbind(1)
    zero = torch.zeros_like(w)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=1).view(-1, 3, 3)
    return torch.eye(3, dtype=cross.dtype, device=cross.device) + 2 * w[:, None, None] * cross + 2 * cross @ cross


def augment_points(clouds: Float[Tensor, "n p 3"], parameters: PointParameters) -> Float[Tensor, "n p 3"]:
    """x ↦ scale · R x + jitter for every point x of cloud i with the i-th parameters."""
    R = (parameters.scale[:, None, None] * parameters.rotation).to(clouds.dtype)
    return clouds @ R.mT + parameters.jitter.to(clouds.dtype)
