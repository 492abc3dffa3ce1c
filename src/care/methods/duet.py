"""DUET (Suau et al., 2023): features arranged in bins encode one parameter of the augmentation."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment.naming import Policy
from care.losses import gaussian_bins, jensen_shannon, von_mises_bins
from care.methods.scaled_parameters import coordinates_of_views, drawn_names, names_of
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

WHOLE_CIRCLE = 0.99  # the least range that random draws from all hues span


@dataclass(frozen=True, kw_only=True)
class DUETSettings(Settings):
    """Settings of DUET."""

    duet_weight: float = setting(10.0, "λ, the weight of the divergence.", above=0)
    duet_parameter: str = setting(
        "hue", "The parameter of the augmentation that features should encode, such as scale, hue or brightness."
    )
    bins: int = setting(8, "G, the number of bins; it must divide the number of features.", at_least=2)


class DUET(Equivariance):
    """L = L_method + λ E JSD(softmax_g(E_c f_gc), q(u)), features f arranged as G bins × C, for both views.

    u is one parameter of the augmentation, scaled to [0, 1], and q(u) a Gaussian around it over the bins. If the range
    is a circle, as for a hue that may go all the way round, q(u) is a von Mises distribution.
    """

    Settings: ClassVar[type[DUETSettings]] = DUETSettings
    uses_theta = True
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        assert context.policy is not None
        if encoder.feature_dim % settings.bins:
            raise ValueError(f"bins must divide the {encoder.feature_dim} features of the model, got {settings.bins}")
        self.column = names_of(context).index(settings.duet_parameter)
        drawn = coordinates_of_views(context)[:, self.column]
        self.low, self.high = drawn.min().item(), drawn.max().item()
        self.circle = settings.duet_parameter == "hue" and self.high - self.low > WHOLE_CIRCLE

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless the policy draws the parameter, and the parameter is one-dimensional."""
        drawn = [name for name in drawn_names(context) if not name.startswith("rotation")]
        if settings.duet_parameter not in drawn:
            hint = f"choose one of {', '.join(drawn)}" if drawn else "rotations have three: choose sie or steerable"
            raise ValueError(f"duet_parameter must be one that the policy draws, not {settings.duet_parameter}: {hint}")

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views."""
        return plan_sharing_views(views, policy, batch)

    def terms(self, *views: EncodedView) -> Terms:
        """The divergence, averaged over both views."""
        losses = [jensen_shannon(self.encoded_bins(view.f), self.target_bins(view.parameters)) for view in views]
        return {"duet": Term(torch.stack(losses).mean(), self.settings.duet_weight)}

    def encoded_bins(self, features: Float[Tensor, "n f"]) -> Float[Tensor, "n g"]:
        """The distribution over bins that the features encode, in full precision."""
        logits = features.unflatten(1, (self.settings.bins, -1)).mean(2)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(1)

    def target_bins(self, theta: Float[Tensor, "n k"]) -> Float[Tensor, "n g"]:
        """The target distribution over bins of an augmentation."""
        u = theta[:, self.column]
        if self.circle:
            return von_mises_bins(u + 0.5, self.settings.bins)
        return gaussian_bins(((u - self.low) / (self.high - self.low)).clamp(0, 1), self.settings.bins)
