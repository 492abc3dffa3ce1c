"""EquiMod (Devillers and Lefort, 2022): predict the embedding of a view from the image and the augmentation.

Not in their paper: predict it from another view, which takes no view of its own.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.naming import Policy
from care.losses import info_nce
from care.methods.scaled_parameters import ScaledParameters
from care.models import Encoder, projection_head
from care.objective import (
    Context,
    EncodedView,
    Equivariance,
    Settings,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    plan_sharing_all_views,
    plan_sharing_views,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class EquiModSettings(Settings):
    """Settings of EquiMod."""

    equimod_weight: float = setting(1.0, "λ, the weight of the equivariance loss.", above=0)
    equimod_temperature: float = setting(0.2, "τ of the InfoNCE between embeddings and their predictions.", above=0)
    equimod_from: Literal["image", "views"] = setting(
        "image",
        "What a view is predicted from: the unaugmented image, an additional view (image), or the view before it, "
        "among those that the method has anyway (views).",
    )
    augmentation_width: int = setting(128, "Output dimension of V, which embeds the coordinates ω.", at_least=1)


class EquiMod(Equivariance):
    """L = L_method + λ InfoNCE([y1; y2; …], [ŷ1; ŷ2; …]), ŷ_i = BN(W [y_s; BN(V ω_si)]), s the source of view i.

    y = g(f) comes from a separate projection head. The source is the unaugmented image, s = 0, or the view before,
    s = i − 1, and the last view for the first. ω_si are the coordinates of the change from s to i; ω_0i are those of
    the augmentation of view i. Predictions for other views of the same image are negatives.
    """

    Settings: ClassVar[type[EquiModSettings]] = EquiModSettings
    uses_theta = True
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.standardized = ScaledParameters(context)
        self.head = projection_head(encoder.feature_dim, context.head_width, context.invariant_dim)
        self.predictor = Predictor(context.invariant_dim, len(self.standardized.names), settings.augmentation_width)

    @classmethod
    def uses_differences(cls, settings: Any) -> bool:
        """Unless the unaugmented image is a view: differences from it are θ itself."""
        return bool(settings.equimod_from == "views")

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views and the unaugmented image, or all views of the method."""
        if settings.equimod_from == "image":
            return plan_sharing_views(views, policy, batch, unaugmented(policy))
        return plan_sharing_all_views(views, policy, batch)

    def terms(self, *views: EncodedView) -> Terms:
        """InfoNCE of our own embeddings with their predictions; predictions of all processes are negatives."""
        y = self.forward_views(self.head, [view.f for view in views])
        sources = self._sources(len(views))
        omega = [self.standardized.between(views[s].parameters, views[i].parameters) for i, s in sources.items()]
        inputs = [torch.cat([y[s], w.to(y[s])], 1) for s, w in zip(sources.values(), omega, strict=True)]
        predicted = self.forward_views(self.predictor, inputs)
        both, guessed = (self.gather(torch.cat(part)) for part in ([y[i] for i in sources], list(predicted)))
        tau, own = self.settings.equimod_temperature, self._own_rows(len(sources))
        loss = info_nce(both, guessed, temperature=tau, anchors=own)
        return {"equimod": Term(loss, self.settings.equimod_weight)}

    def _sources(self, views: int) -> dict[int, int]:
        """The view that each predicted view is predicted from. The unaugmented image is the last one."""
        if self.settings.equimod_from == "image":
            return dict.fromkeys(range(views - 1), views - 1)
        return {i: (i - 1) % views for i in range(views)}

    def _own_rows(self, views: int) -> slice:
        """Our own rows of the gathered ones, in which each process has the rows of its views one after the other."""
        if self.rows.start is None:
            return self.rows
        return slice(views * self.rows.start, views * self.rows.stop)

    def exported(self) -> dict[str, Tensor]:
        """The head g and the predictor, with which ŷ can be computed later."""
        return {name: tensor.detach() for name, tensor in self.state_dict().items()}


class Predictor(nn.Module):
    """(y_0, ω) ↦ BN(W [y_0; BN(V ω)]), linear except for the norms."""

    def __init__(self, d: int, coordinates: int, width: int) -> None:
        super().__init__()
        self.d = d
        self.V = nn.Sequential(nn.Linear(coordinates, width, bias=False), nn.BatchNorm1d(width))
        self.W = nn.Sequential(nn.Linear(d + width, d, bias=False), nn.BatchNorm1d(d))

    def forward(self, x: Float[Tensor, "n inputs"]) -> Float[Tensor, "n {self.d}"]:
        """ŷ of rows [y_0; ω]."""
        y0, omega = x.split([self.d, x.shape[1] - self.d], 1)
        predicted: Tensor = self.W(torch.cat([y0, self.V(omega)], 1))
        return predicted


def unaugmented(policy: Policy) -> ViewSpec:
    """A view of the unaugmented images, at the policy's size."""
    return ViewSpec(dataclasses.replace(policy, identity=1.0), 1)
