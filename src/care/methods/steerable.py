"""Steerable representations (Bhardwaj et al., 2023): an augmentation acts as a learned linear map of its parameters."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from care.augment.naming import Policy
from care.losses import linear_map, mapped, uniformity
from care.methods.equimod import unaugmented
from care.methods.scaled_parameters import ScaledParameters
from care.models import Encoder
from care.objective import (
    Context,
    EncodedView,
    Equivariance,
    Settings,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    plan_sharing_views,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class SteerableSettings(Settings):
    """Settings of steerable representations."""

    steerable_weight: float = setting(1.0, "λ, the weight of the loss of the linear maps.", above=0)
    uniformity_weight: float = setting(0.1, "μ, the weight of the uniformity of the embeddings.", at_least=0)


class Steerable(Equivariance):
    """L = L_method + λ E_x ‖M(θ) f(x) − f(a_θ x)‖² + μ L_unif, both on the sphere, x the unaugmented image.

    M(θ) = I + Σ_k θ_k B_k with learned matrices B_k. Unlike CARE's maps, it need not be a rotation.
    L_unif = log E exp(−2 ‖f(a x) − f(a' x⁻)‖²) over different images keeps embeddings apart.
    """

    Settings: ClassVar[type[SteerableSettings]] = SteerableSettings
    uses_theta = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.standardized = ScaledParameters(context)
        d = context.embedding_dim
        self.maps = nn.Parameter(torch.zeros(len(self.standardized.names), d, d))

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views, and the unaugmented image."""
        return plan_sharing_views(views, policy, batch, unaugmented(policy))

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of the maps on both views, and the uniformity over the images of all processes."""
        *augmented, picture = views
        maps = [mapped(picture.z, self.standardized(view.parameters), self.maps) for view in augmented]
        losses = [linear_map(predicted, view.z) for predicted, view in zip(maps, augmented, strict=True)]
        z1, z2 = (self.gather(view.z) for view in augmented)
        return {
            "steerable": Term(torch.stack(losses).mean(), self.settings.steerable_weight),
            "steerable_uniformity": Term(uniformity(z1, z2, "wang-isola"), self.settings.uniformity_weight),
        }

    def exported(self) -> dict[str, Tensor]:
        """The B_k of M(θ), and the standard deviations that divide θ."""
        return {"maps": self.maps.detach(), "std": self.standardized.std}
