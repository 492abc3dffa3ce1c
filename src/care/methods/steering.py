"""Steering: CARE asks that an augmentation act as some rotation; steering computes which one from its parameters.

Not in the paper. The generators of the rotations are trained with the encoder.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.geometry import harmonic_blocks, skew
from care.losses import steering
from care.methods.care import CARE, CARESettings
from care.models import Encoder
from care.objective import Context, EncodedView, Term, Terms, setting

START = 0.1  # radians: the initial rotation of a plane per unit of any coordinate except the hue
HUE_WINDINGS = (0, 1, 2, 0)  # initial full turns of the planes while the hue goes round once


@dataclass(frozen=True, kw_only=True)
class SteeringSettings(CARESettings):
    """Settings of steering."""

    care_weight: float = setting(0.0, "λ, the weight of CARE's equivariance loss; 0: none.", at_least=0)
    form: Literal["euclidean"] = setting("euclidean", "Steering rotates points of a sphere.")
    steering_weight: float = setting(1.0, "μ, the weight of the steering loss.", above=0)
    steering_rank: int = setting(
        32, "Number of coordinates that R(θ) rotates, the first ones of the embedding.", at_least=2, at_most=512
    )


class Steering(CARE):
    """L = L_method + λ L_equi + μ E_x ‖R(θ) R(θ')ᵀ f(a' x) − f(a x)‖², R(θ) = exp(Σ_k θ_k A_k)."""

    Settings: ClassVar[type[CARESettings]] = SteeringSettings
    uses_theta = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        rank = min(settings.steering_rank, context.embedding_dim)
        self.generators = generators_for(context.clouds, rank)

    def terms(self, *views: EncodedView) -> Terms:
        """L_equi, if its weight is not 0, and the steering loss."""
        a, b = views
        assert a.theta is not None
        assert b.theta is not None
        rotated = steering(a.z, b.z, a.theta, b.theta, self.generators())
        found = super().terms(*views) if self.settings.care_weight else {}
        return found | {"steering": Term(rotated, self.settings.steering_weight)}

    def exported(self) -> dict[str, Tensor]:
        """The generators A_k of the first coordinates of the embedding."""
        return {"generators": self.generators().detach()}


class LearnedGenerators(nn.Module):
    """Learned skew matrices A_k of size m, returned in the order of `names`.

    They start as rotations of the coordinate planes (1, 2), (3, 4), … by random angles, and for the hue by multiples of
    2π, so that a full turn of the hue is the identity. The encoder learns which plane encodes what.
    """

    names = IMAGE_NAMES

    def __init__(self, m: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        angles = START * torch.randn(len(self.names), m // 2, generator=generator)
        angles[self.names.index("hue")] = 2 * math.pi * torch.tensor(HUE_WINDINGS).repeat(m)[: m // 2]
        A, first = torch.zeros(len(self.names), m, m), torch.arange(0, m - 1, 2)
        A[:, first, first + 1] = 2 * angles
        self.free = nn.Parameter(A)

    def forward(self) -> Float[Tensor, "k m m"]:
        """The generators A_k."""
        return skew(self.free)


class HarmonicGenerators(nn.Module):
    """Fixed A_k for point clouds: rotations act on embeddings as on spherical harmonics, and R(ba) = R(b) R(a).

    Blocks of degree 1 and 2 fill all m coordinates. The choice of basis does not matter, because the encoder is trained
    with it. It does matter that the rotations fix no direction: the encoder could use that direction alone, and be
    invariant. A change of scale is the identity.
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


def generators_for(clouds: bool, m: int) -> LearnedGenerators | HarmonicGenerators:
    """Generators of size m for augmentations of point clouds, or of images."""
    return HarmonicGenerators(m) if clouds else LearnedGenerators(m)


def degrees_filling(m: int) -> list[int]:
    """Degrees 1 (3 coordinates) and 2 (5), about equally often, that fill m coordinates; for m = 4 and 7, m − 1."""
    seconds = [count for count in range(m // 5 + 1) if (m - 5 * count) % 3 == 0]
    if not seconds:
        return degrees_filling(m - 1)
    count = min(seconds, key=lambda count: abs(m - 8 * count))
    return (m - 5 * count) // 3 * [1] + count * [2]
