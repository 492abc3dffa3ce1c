"""A split embedding: the method sees the invariant part, CARE the equivariant part. Not in the paper.

A contrastive loss asks that augmentations leave the embedding unchanged, CARE that they rotate it. One embedding cannot
satisfy both for long; two parts can. The names of the parts are those of SIE (Garrido, Najman and LeCun, 2023), which
uses a predictor in place of these losses.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from care.augment.naming import Policy
from care.losses import orbit_uniformity, slice_uniformity
from care.methods.augself import AugSelf, AugSelfSettings
from care.methods.care import CARE, CARESettings
from care.methods.equimod import EquiMod, EquiModSettings
from care.methods.essl import ESSL, ESSLSettings
from care.models import Encoder
from care.objective import (
    Context,
    EncodedView,
    Method,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    plan_sharing_all_views,
    setting,
)

# The settings of each prediction, which mean nothing without its weight.
OF_WEIGHTS = {
    "augself_weight": ("predicted",),
    "equimod_weight": ("equimod_temperature",),
    "essl_weight": ("turned_fraction", "turn_width"),
}


@dataclass(frozen=True, kw_only=True)
class SplitSettings(AugSelfSettings, EquiModSettings, ESSLSettings, CARESettings):
    """Settings of a split embedding. λ and κ were chosen on CIFAR-10 (`care reproduce split-sweep`).

    The equivariant part has few coordinates because in many dimensions all embeddings are nearly orthogonal, and L_equi
    is small without a rotation.
    """

    care_weight: float = setting(10.0, "λ, the weight of the equivariance loss, which is a mean over pairs.", above=0)
    form: Literal["euclidean"] = setting("euclidean", "The bilinear form: the equivariant part is on a sphere.")
    equivariant_dim: int = setting(16, "Dimension of the equivariant part, the last coordinates.", at_least=2)
    equivariant_layer: str | None = setting(
        None,
        "Feed the equivariant part from this layer of the backbone, such as layer3, stages.2 or blocks.6, or middle, "
        "through its own head. Default: the last features, through the projection head.",
    )
    equivariant_depth: int = setting(
        2, "Layers of the equivariant part's own head, if it has one.", at_least=1, at_most=64
    )
    stop_gradient: bool = setting(
        False,
        "The losses of the equivariant part train its own head only: the backbone is the one that the method trains "
        "alone.",
    )
    equivariant_weight: float = setting(0.1, "κ, the weight of all losses of the equivariant part.", above=0)
    orbit_weight: float = setting(
        1.0, "ω, how strongly views of one image are kept apart in the equivariant part.", at_least=0
    )
    augself_weight: float = setting(
        0.0, "w, the weight of predicting the method's augmentations from the features, so that these keep them.",
        at_least=0,
    )  # fmt: skip
    equimod_weight: float = setting(
        0.0, "μ, the weight of predicting the embedding of a view from another one, as EquiMod does.", at_least=0
    )
    equimod_from: Literal["image", "views"] = setting(
        "views",
        "What a view is predicted from: the unaugmented image, an additional view (image, not beside a split "
        "embedding), or the view before it, among those that the method has anyway (views).",
    )
    essl_weight: float = setting(
        0.0, "v, the weight of predicting quarter turns from the features, so that these keep the orientation.",
        at_least=0,
    )  # fmt: skip


class Split(CARE):
    """L = L_method(c) + κ (L_slice(r) + ω L_orbit(r) + λ L_equi(r)) + w L_AugSelf(f) + μ L_EquiMod(f) + v L_ESSL(f),
    z = (c, r).

    Two kinds of useless r have an L_equi of 0: one point for each augmentation, which L_slice prevents, and one point
    for each image, which L_orbit prevents. With an `equivariant_layer`, r = head_r(that layer's mean over positions):
    its losses train the backbone up to this layer and leave the rest to the method. With `stop_gradient`,
    r = head_r(sg(features)): the backbone is, bit for bit, the one that the method trains alone. With w > 0, the
    features f keep the parameters that AugSelf predicts; with μ > 0, whatever changes between views, which EquiMod
    predicts; with v > 0, they keep the orientation, as in E-SSL.
    """

    Settings: ClassVar[type[CARESettings]] = SplitSettings

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.augself = AugSelf(settings, encoder, method_context(context)) if settings.augself_weight else None
        self.equimod = EquiMod(settings, encoder, method_context(context)) if settings.equimod_weight else None
        self.essl = ESSL(settings, encoder, method_context(context)) if settings.essl_weight else None

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless there is a method with an invariant part, whose views vary in all predicted parameters."""
        super().check(settings, context, method)
        check_parts(context, method)
        if settings.equivariant_depth != 2 and not (settings.equivariant_layer or settings.stop_gradient):
            raise ValueError("equivariant_depth needs a head of its own: choose an equivariant_layer, or stop_gradient")
        for name in ("augself_weight", "equimod_weight"):
            if getattr(settings, name) and settings.equivariance_views not in ("own", "composed"):
                raise ValueError(f"{name} needs the method's own views: choose equivariance_views own or composed")
        if settings.equimod_from != "views":
            raise ValueError("a split embedding predicts views from views: leave out equimod_from")
        if settings.augself_weight:
            AugSelf.check(settings, method_context(context), method)
        if settings.essl_weight:
            ESSL.check(settings, context, method)
        check_useless(settings)

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The views that AugSelf and EquiMod compare, the turned view of E-SSL, and CARE's views last."""
        plan = super().plan(settings, views, policy, batch)
        compares = bool(settings.augself_weight or settings.equimod_weight)
        stopped = plan.equivariance if settings.stop_gradient else ()
        compared = plan_sharing_all_views(views, policy, batch).equivariance if compares else ()
        turned = ESSL.plan(settings, (), views[0].policy, batch).views if settings.essl_weight else ()
        seen = (*compared, *range(len(plan.views), len(plan.views) + len(turned)), *plan.equivariance)
        return dataclasses.replace(
            plan, views=(*plan.views, *turned), equivariance=seen, theta=compares, stopped=stopped
        )

    def terms(self, *views: EncodedView) -> Terms:
        """The losses of the equivariant part, and those of AugSelf, EquiMod and E-SSL on the features."""
        *others, a, b = views
        turns: Terms = {} if self.essl is None else self.essl.terms(others.pop())
        found = self._equivariant_terms(a, b)
        for prediction in filter(None, (self.augself, self.equimod)):
            found |= prediction.terms(*others)
        return found | turns

    def _equivariant_terms(self, a: EncodedView, b: EncodedView) -> Terms:
        s = self.settings
        kappa, (l_equi, _) = s.equivariant_weight, super().terms(a, b)["equivariance"]
        found = {
            "equivariance": Term(l_equi, kappa * s.care_weight),
            "slice": Term(slice_uniformity(a.z, b.z, self.chunks), kappa),
        }
        if s.orbit_weight:
            found["orbit"] = Term(orbit_uniformity(a.z, b.z, self.chunks), kappa * s.orbit_weight)
        return found


def check_useless(settings: SplitSettings) -> None:
    """ValueError for settings of a loss whose weight is 0."""
    for weight, names in OF_WEIGHTS.items():
        useless = [name for name in names if getattr(settings, name) != getattr(SplitSettings, name)]
        if useless and not getattr(settings, weight):
            raise ValueError(f"{useless[0]} needs an {weight} above 0: choose one, or leave it out")


def method_context(context: Context) -> Context:
    """The context of a loss that compares the method's views: its policy is the method's."""
    return dataclasses.replace(context, policy=context.method_policy)


def check_parts(context: Context, method: type[Method] | None) -> None:
    """ValueError unless there is a method, and the invariant part has at least 2 coordinates."""
    if method is None:
        raise ValueError("a split embedding needs a method, for its invariant part: choose one, or care")
    if context.invariant_dim < 2:
        most, d = context.embedding_dim - 2, context.embedding_dim
        raise ValueError(
            f"equivariant_dim must be at most {most} for an embedding_dim of {d}, got {context.equivariant_dim}"
        )
