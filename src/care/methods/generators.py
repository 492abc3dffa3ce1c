"""The generators of a steering that is trained with the encoder: what each coordinate of an augmentation does."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.geometry import harmonic_blocks, skew

START = 0.1  # radians: how far a plane is turned per unit of any coordinate but the hue
HUE_TURNS = (0, 1, 2, 0)  # of a plane while the hue goes round once, at the start


class LearnedGenerators(nn.Module):
    """Skew A_k of size m, free to learn: called, it returns all of them, in the order of `names`.

    They start as turns of the planes of coordinates (1, 2), (3, 4) and so on by random angles, and for the hue by whole
    turns, so that a hue that went round is the hue it was. The encoder finds out what to put into which plane.
    """

    names = IMAGE_NAMES

    def __init__(self, m: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        angles = START * torch.randn(len(self.names), m // 2, generator=generator)
        angles[self.names.index("hue")] = 2 * math.pi * torch.tensor(HUE_TURNS).repeat(m)[: m // 2]
        A, first = torch.zeros(len(self.names), m, m), torch.arange(0, m - 1, 2)
        A[:, first, first + 1] = 2 * angles
        self.free = nn.Parameter(A)

    def forward(self) -> Float[Tensor, "k m m"]:
        """The generators A_k."""
        return skew(self.free)


class HarmonicGenerators(nn.Module):
    """Rotations of point clouds turn embeddings as they do spherical harmonics: nothing to learn, R(ba) = R(b) R(a).

    Blocks of degree 1 and 2 fill all m coordinates. In which basis does not matter to an encoder that is trained with
    them, but that nothing is left over does: a direction that stays is where an encoder may put everything, which then
    does not turn at all. A change of scale turns nothing.
    """

    names = POINT_NAMES
    fixed: Tensor

    def __init__(self, m: int) -> None:
        super().__init__()
        A, J = torch.zeros(len(self.names), m, m), harmonic_blocks(degrees_filling(m))
        A[:3, : J.shape[1], : J.shape[1]] = J
        self.register_buffer("fixed", A)

    def forward(self) -> Float[Tensor, "k m m"]:
        """The generators A_k."""
        return self.fixed


Generators = LearnedGenerators | HarmonicGenerators


def generators_for(policy: str, m: int) -> Generators:
    """Generators of size m for the augmentations of the policy called `policy`."""
    return HarmonicGenerators(m) if policy == "rotations" else LearnedGenerators(m)


def degrees_filling(m: int) -> list[int]:
    """Degrees 1 (3 coordinates) and 2 (5), about equally often, that fill m coordinates; of 4 and of 7 one is left."""
    seconds = [count for count in range(m // 5 + 1) if (m - 5 * count) % 3 == 0]
    if not seconds:
        return degrees_filling(m - 1)
    count = min(seconds, key=lambda count: abs(m - 8 * count))
    return (m - 5 * count) // 3 * [1] + count * [2]
