"""`chains`: generated protein-like point clouds.

A chain is a backbone of points one bond length apart. A bend and a twist at every point give its course, like the bond
and torsion angles of a protein. Each class has one sequence of bends and twists, to which every sample adds noise. The
clouds are centered and scaled to unit root-mean-square radius, in a random orientation.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

CLASSES = 10
NOISE = 0.05  # the standard deviation of every bend and twist, in radians

# Mean bend and twist of a helix and of a strand, in radians, close to those of the trace of a protein backbone.
SECONDARY_STRUCTURES = ((1.57, 0.87), (0.98, -2.97))


@dataclass(frozen=True)
class Chains:
    """Point clouds [n, points, 3] and the class of each."""

    points: Float[Tensor, "n points 3"]
    labels: Int[Tensor, " n"]


def generate_chains(n: int, seed: int, points: int = 64) -> Chains:
    """n chains in equal shares of all classes; the same seed gives the same chains, and all seeds share the classes."""
    generator = torch.Generator().manual_seed(seed)
    profiles = _class_profiles(points)
    labels = torch.arange(n) % CLASSES
    angles = profiles[labels] + NOISE * torch.randn(n, points - 1, 2, generator=generator)
    return Chains(_standardize(_fold(angles) @ _random_rotations(n, generator).mT), labels)


def _class_profiles(points: int) -> Float[Tensor, "classes bonds 2"]:
    """(bend, twist) of every bond: four stretches of helix or strand per class, joined by random turns."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(2, (CLASSES, 4), generator=generator)
    stretches = torch.tensor(SECONDARY_STRUCTURES)[kinds].repeat_interleave(-(-points // 4), dim=1)[:, : points - 1]
    joints = torch.rand(CLASSES, 4, 2, generator=generator) * torch.tensor([1.5, 6.28])
    first = torch.arange(4) * -(-points // 4)
    stretches[:, first] = joints
    return stretches


def _fold(angles: Float[Tensor, "n bonds 2"]) -> Float[Tensor, "n points 3"]:
    """Walk along the chain: at each bond twist about the direction of travel, bend, and take one step."""
    bend, twist = angles.unbind(-1)
    zero, one = torch.zeros_like(bend), torch.ones_like(bend)
    about_x = torch.stack([one, zero, zero, zero, twist.cos(), -twist.sin(), zero, twist.sin(), twist.cos()], -1)
    about_z = torch.stack([bend.cos(), -bend.sin(), zero, bend.sin(), bend.cos(), zero, zero, zero, one], -1)
    turns = about_x.unflatten(-1, (3, 3)) @ about_z.unflatten(-1, (3, 3))
    frame = torch.eye(3).expand(len(angles), 3, 3)
    steps = []
    for bond in range(angles.shape[1]):
        frame = frame @ turns[:, bond]
        steps.append(frame[:, :, 0])
    return torch.nn.functional.pad(torch.stack(steps, dim=1).cumsum(dim=1), (0, 0, 1, 0))


def _random_rotations(n: int, generator: torch.Generator) -> Float[Tensor, "n 3 3"]:
    q, r = torch.linalg.qr(torch.randn(n, 3, 3, generator=generator))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    return q * torch.linalg.det(q)[:, None, None]


def _standardize(clouds: Float[Tensor, "n points 3"]) -> Float[Tensor, "n points 3"]:
    clouds = clouds - clouds.mean(dim=1, keepdim=True)
    return clouds / clouds.square().sum(-1).mean(1).sqrt()[:, None, None]


def longest_axes(points: Float[Tensor, "n points 3"]) -> Float[Tensor, "n 3 3"]:
    """v vᵀ for the first principal axis v of every cloud, whose sign is arbitrary."""
    v = torch.linalg.eigh(points.mT @ points).eigenvectors[..., -1]
    return v[:, :, None] * v[:, None, :]
