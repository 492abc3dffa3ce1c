"""SIE (Garrido, Najman and LeCun, 2023): a split embedding whose equivariant part a hypernetwork transforms."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from care.augment.naming import Policy
from care.losses import mapped, off_diagonal_covariance, variance_hinge
from care.methods.scaled_parameters import ScaledParameters
from care.methods.split import check_parts
from care.models import Encoder
from care.objective import (
    Context,
    EncodedView,
    Equivariance,
    Method,
    Settings,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    plan_sharing_views,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class SIESettings(Settings):
    """Settings of SIE."""

    equivariant_dim: int = setting(64, "Dimension of the equivariant part, the last coordinates.", at_least=2)
    sie_weight: float = setting(4.5, "Weight of the mean squared error of the predicted equivariant part.", above=0)
    spread_weight: float = setting(
        10.0, "Weight of the hinge on the standard deviations of all coordinates and predictions.", at_least=0
    )
    decorrelation_weight: float = setting(1.0, "Weight of the covariances between all coordinates.", at_least=0)


class SIE(Equivariance):
    """L = L_method(c) + λ mean (W(ω) r1 − r2)² + μ (V(z1) + V(z2) + V(W(ω) r1))/2 + ν (C(z1) + C(z2)), z = (c, r).

    W(ω) = I + Σ_k ω_k B_k is a learned linear hypernetwork, and ω are the coordinates of the change from view 1 to
    view 2. V and C are the variance and covariance terms of VICReg. C covers both parts, so that r does not repeat c.
    """

    Settings: ClassVar[type[SIESettings]] = SIESettings
    uses_theta = True
    whole = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.standardized = ScaledParameters(context)
        d = settings.equivariant_dim
        self.maps = nn.Parameter(torch.zeros(len(self.standardized.names), d, d))

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless there is a method, and an invariant part for it."""
        check_parts(context, method)

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views."""
        return plan_sharing_views(views, policy, batch)

    def terms(self, *views: EncodedView) -> Terms:
        """The prediction term, and the terms against collapse over the images of all processes."""
        (a, b), s = views, self.settings
        r1, r2 = (z[:, z.shape[1] - s.equivariant_dim :] for z in (a.z, b.z))
        predicted = mapped(r1, self.standardized.between(a.parameters, b.parameters), self.maps)
        z1, z2, guess = (self.gather(part) for part in (a.z, b.z, predicted))
        spread = (variance_hinge(z1) + variance_hinge(z2) + variance_hinge(guess)) / 2
        return {
            "sie": Term((predicted - r2).square().mean(), s.sie_weight),
            "spread": Term(spread, s.spread_weight),
            "decorrelation": Term(off_diagonal_covariance(z1) + off_diagonal_covariance(z2), s.decorrelation_weight),
        }

    def exported(self) -> dict[str, Tensor]:
        """The B_k of W(ω) on the equivariant part, and the standard deviations that divide θ."""
        return {"maps": self.maps.detach(), "std": self.standardized.std}
