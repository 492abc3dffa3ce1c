"""CASSLE (Przewięźlikowski et al., 2023): the projection head sees the augmentation, so the features may keep it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.naming import Policy
from care.methods.scaled_parameters import ScaledParameters
from care.methods.teacher import Forward
from care.models import Encoder
from care.objective import Context, EncodedView, Equivariance, Method, Settings, Terms, ViewPlan, ViewSpec, setting

LAYERS = 6  # of γ


@dataclass(frozen=True, kw_only=True)
class CASSLESettings(Settings):
    """Settings of CASSLE."""

    condition_width: int = setting(64, "Width of γ, which has six layers.", at_least=1)


class CASSLE(Equivariance):
    """L = L_method of z = head([f; γ(ω)]), and no other term.

    The first layer of the head is linear, so [f; γ] enters it as W f + V γ(ω). W belongs to the encoder; γ and V belong
    to this module, which adds V (γ(ω) − γ(0)): the layer's bias absorbs the constant. An unaugmented view has ω = 0, so
    the encoder's own head applies to it unchanged. A copy of γ and V conditions a teacher's head, and follows as the
    teacher does.
    """

    Settings: ClassVar[type[CASSLESettings]] = CASSLESettings
    uses_theta = True
    conditions = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.standardized = ScaledParameters(context)
        first = next(layer for layer in encoder.head.modules() if isinstance(layer, nn.Linear))
        self.gamma = condition(len(self.standardized.names), settings.condition_width)
        self.V = nn.Linear(settings.condition_width, first.out_features, bias=False)

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError without a method, whose head is conditioned."""
        if method is None:
            raise ValueError("cassle changes the head and has no loss of its own: choose a method")

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's views, all of them with θ."""
        positions = tuple(range(len(views)))
        return ViewPlan(views, positions, conditioned=positions)

    def embed(self, head: nn.Module, views: list[EncodedView], forward: Forward | None = None) -> list[Tensor]:
        """head([f; γ(ω)]) of every view."""
        assert isinstance(head, nn.Sequential)
        hidden = [head[0](view.f) + self.embed_parameters(view.parameters) for view in views]
        return (forward or self.forward_views)(head[1:], hidden)

    def embed_parameters(self, theta: Float[Tensor, "n k"]) -> Float[Tensor, "n width"]:
        """V (γ(ω) − γ(0)), added to the output of the head's first layer."""
        omega = self.standardized(theta)
        embedded: Tensor = self.V(self.gamma(omega) - self.gamma(torch.zeros_like(omega[:1])))
        return embedded

    def terms(self, *views: EncodedView) -> Terms:
        """No terms: the method's loss is the only one."""
        return {}


def condition(coordinates: int, width: int) -> nn.Sequential:
    """γ: six linear layers, each with a ReLU."""
    widths = (coordinates, *LAYERS * [width])
    layers = ((nn.Linear(before, after), nn.ReLU(inplace=True)) for before, after in pairwise(widths))
    return nn.Sequential(*(layer for pair in layers for layer in pair))
