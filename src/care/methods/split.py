"""A split embedding: the method sees the invariant part, CARE the equivariant part. Not in the paper.

A contrastive loss asks that augmentations change nothing, CARE that they rotate the embedding. Of one embedding both
cannot hold for long; of two parts they can. The words are those of SIE (Garrido, Najman and LeCun, 2023), which has a
predictor in place of these losses.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from care.losses import orbit_uniformity, slice_uniformity
from care.methods.augself import AugSelf, AugSelfSettings
from care.methods.care import CARE, CARESettings
from care.methods.essl import ESSL, ESSLSettings
from care.models import Encoder
from care.objective import Context, EncodedView, Method, Term, Terms, ViewPlan, ViewSpec, setting
from care.objective.views import Policy


@dataclass(frozen=True, kw_only=True)
class SplitSettings(AugSelfSettings, ESSLSettings, CARESettings):
    """Settings of a split embedding. λ and κ were chosen on CIFAR-10 (`care reproduce split-sweep`).

    Few coordinates: in many dimensions all embeddings are nearly orthogonal, and L_equi is small without a rotation.
    """

    care_weight: float = setting(10.0, "λ, the weight of the equivariance loss, which is a mean over pairs.", above=0)
    form: Literal["euclidean"] = setting("euclidean", "The equivariant part is on a sphere.")
    equivariant_dim: int = setting(16, "How many coordinates, the last ones, are the equivariant part.", at_least=2)
    equivariant_layer: str | None = setting(
        None,
        "Make the equivariant part from this layer of the backbone, such as layer3, stages.2 or blocks.6, or from the "
        "middle one, by a head of its own. Default: from the last features.",
    )
    equivariant_depth: int = setting(
        2, "Layers of the head of the equivariant part, where it has one of its own.", at_least=1, at_most=64
    )
    stop_gradient: bool = setting(
        False, "Train the head of the equivariant part alone: the backbone is left to the method, and becomes its own."
    )
    equivariant_weight: float = setting(0.1, "κ, the weight of all losses of the equivariant part.", above=0)
    orbit_weight: float = setting(
        1.0, "ω, how strongly views of one image are kept apart in the equivariant part.", at_least=0
    )
    augself_weight: float = setting(
        0.0, "w, the weight of predicting the method's augmentations from the features, which then keep them.",
        at_least=0,
    )  # fmt: skip
    essl_weight: float = setting(
        0.0, "The weight of predicting quarter turns from the features, which then keep which way up a picture is.",
        at_least=0,
    )  # fmt: skip


class Split(CARE):
    """L = L_method(c) + κ (L_slice(r) + ω L_orbit(r) + λ L_equi(r)) + w L_AugSelf(f) + v L_ESSL(f), z = (c, r).

    Two kinds of r have an L_equi of 0 and are of no use. L_slice keeps r from being one point for each augmentation,
    L_orbit from being one point for each image. With an `equivariant_layer`, r = head_r(mean of that layer's places):
    its losses train the backbone up to there, and leave what follows to the method. With `stop_gradient`,
    r = head_r(sg(features)): the backbone is, bit for bit, the one that the method trains alone. With w > 0, its
    features f keep what AugSelf predicts from them, and with v > 0 which way up a picture is, as E-SSL does.
    """

    Settings: ClassVar[type[CARESettings]] = SplitSettings

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.augself = AugSelf(settings, encoder, of_method(context)) if settings.augself_weight else None
        self.essl = ESSL(settings, encoder, of_method(context)) if settings.essl_weight else None

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """Something is left for the method, and there is one; what is predicted is drawn for its views."""
        super().check(settings, context, method)
        check_parts(context, method)
        if settings.equivariant_depth != 2 and not (settings.equivariant_layer or settings.stop_gradient):
            raise ValueError("equivariant_depth is of a head of its own: choose an equivariant_layer, or stop_gradient")
        if settings.augself_weight:
            if settings.equivariance_views not in ("own", "composed"):
                raise ValueError("augself_weight needs views of the method's own: equivariance_views own or composed")
            AugSelf.check(settings, of_method(context), method)
        elif settings.predicted is not None:
            raise ValueError("predicted is of use with an augself_weight above 0 only: leave it out")
        if settings.essl_weight:
            ESSL.check(settings, context, method)
        elif useless := [name for name in ("turned_size", "turn_width") if getattr(settings, name) is not None]:
            raise ValueError(f"{useless[0]} is of use with an essl_weight above 0 only: leave it out")

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """CARE's views, behind those that AugSelf compares and the turned one of E-SSL."""
        plan, w = super().plan(settings, views, policy, batch), settings.augself_weight
        stopped = plan.equivariance if settings.stop_gradient else ()
        compared = AugSelf.plan(settings, views, policy, batch).equivariance if w else ()
        turned = ESSL.plan(settings, (), views[0].policy, batch).views if settings.essl_weight else ()
        seen = (*compared, *range(len(plan.views), len(plan.views) + len(turned)), *plan.equivariance)
        return dataclasses.replace(
            plan, views=(*plan.views, *turned), equivariance=seen, theta=bool(w), stopped=stopped
        )

    def terms(self, *views: EncodedView) -> Terms:
        """The losses of the equivariant part, and of what is predicted from the features."""
        *others, a, b = views
        turns = {} if self.essl is None else self.essl.terms(others.pop())
        return self._of_part(a, b) | ({} if self.augself is None else self.augself.terms(*others)) | turns

    def _of_part(self, a: EncodedView, b: EncodedView) -> Terms:
        s = self.settings
        kappa, (l_equi, _) = s.equivariant_weight, super().terms(a, b)["equivariance"]
        found = {
            "equivariance": Term(l_equi, kappa * s.care_weight),
            "slice": Term(slice_uniformity(a.z, b.z, self.chunks), kappa),
        }
        if s.orbit_weight:
            found["orbit"] = Term(orbit_uniformity(a.z, b.z, self.chunks), kappa * s.orbit_weight)
        return found


def of_method(context: Context) -> Context:
    """For what compares the method's views: with their augmentations."""
    return dataclasses.replace(context, policy=context.method_policy)


def check_parts(context: Context, method: type[Method] | None) -> None:
    """ValueError unless something of a split embedding is left for the method, and there is one."""
    if method is None:
        raise ValueError("a split embedding needs a method, for its invariant part: choose one, or care")
    if context.invariant_dim < 2:
        most, d = context.embedding_dim - 2, context.embedding_dim
        raise ValueError(
            f"equivariant_dim must be at most {most} for an embedding_dim of {d}, got {context.equivariant_dim}"
        )
