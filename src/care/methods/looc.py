"""LooC (Xiao, Wang, Efros and Darrell, 2021): spaces that are invariant to all augmentations but one."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import nn

from care.augment import ImagePolicy
from care.augment.naming import Policy
from care.augment.policy import Family
from care.losses import leave_one_out
from care.models import Encoder, projection_head
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
from care.objective.settings import names_in


@dataclass(frozen=True, kw_only=True)
class LooCSettings(Settings):
    """Settings of LooC."""

    looc_weight: float = setting(1.0, "λ, the weight of the mean over spaces.", above=0)
    looc_temperature: float = setting(0.2, "τ of the InfoNCE of each space.", above=0)
    left_out: str = setting(
        "color", "The augmentations to which a space each stays sensitive, such as crop,color. Each costs a view."
    )


class LooC(Equivariance):
    """L = L_method + λ E_s [−log( e^{q·k_s/τ} / Σ_{v,j} e^{q·k_j^v/τ} )], the mean over spaces s.

    The method's embedding is the space invariant to all augmentations, and q and k_0 are its two views. Every space s
    has its own head, and a key k_s that shares with q the augmentation s and no other. In space s, k_s is the only
    positive: k_0 and the other keys of the same image, in which s differs, are negatives.
    """

    Settings: ClassVar[type[LooCSettings]] = LooCSettings
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        widths = encoder.feature_dim, context.head_width, context.embedding_dim
        self.heads = nn.ModuleList(projection_head(*widths) for _ in left_out(settings))

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless the policy draws every augmentation that is left out."""
        if not isinstance(context.policy, ImagePolicy):
            raise ValueError("looc needs several augmentations, and point clouds have one: choose augself")
        drawn = context.policy.families()
        if missing := [name for name in left_out(settings) if name not in drawn]:
            raise ValueError(f"left_out: the policy draws {', '.join(drawn)}, and not {', '.join(missing)}")

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views, and another one for each augmentation that is left out."""
        plan = plan_sharing_views(views, policy, batch)
        shared = [dataclasses.replace(plan.views[0], like=family) for family in left_out(settings)]
        return plan_sharing_views(views, policy, batch, *shared)

    def terms(self, *views: EncodedView) -> Terms:
        """The mean over spaces, over the images of all processes."""
        losses = []
        for space, head in enumerate(self.heads, start=1):
            query, *keys = (self.gather(z) for z in self.forward_views(head, [view.f for view in views]))
            losses.append(leave_one_out(query, torch.stack(keys), space, self.settings.looc_temperature))
        return {"looc": Term(torch.stack(losses).mean(), self.settings.looc_weight)}


def left_out(settings: Any) -> list[Family]:
    """The names of the augmentations that are left out, each once: the same space twice would contradict itself."""
    names: list[Any] = names_in(settings.left_out, "left_out", "crop,color")
    known = get_args(Family)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"left_out takes {', '.join(known)}, separated by commas, not {', '.join(unknown)}")
    return names
