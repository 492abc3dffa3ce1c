"""STL (Yu et al., 2024): the transformation between two views is inferred from another pair of views."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.naming import Policy
from care.losses import info_nce, mapped
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

START = 0.01  # the initial standard deviation of the entries of B_k


@dataclass(frozen=True, kw_only=True)
class STLSettings(Settings):
    """Settings of STL."""

    stl_weight: float = setting(1.0, "λ, the weight of the equivariance loss.", above=0)
    transformation_weight: float = setting(0.1, "μ, the weight of the agreement of transformations.", at_least=0)
    stl_temperature: float = setting(0.2, "τ of both InfoNCE losses.", above=0)
    stl_dim: int = setting(128, "Dimension of the embedding y that transformations act on.", at_least=2, at_most=2048)
    transformation_dim: int = setting(64, "Dimension of the embedding t of a transformation.", at_least=2, at_most=2048)


class STL(Equivariance):
    """L = L_method + λ InfoNCE(y2, H(t') y1) + μ InfoNCE(t, t'), t = g([f(x1); f(x2)]), y = e(f).

    Images are paired with a neighbor in the batch that shares both augmentations: t' is the transformation inferred
    from the neighbor, and must fit the image, too. H(t) = I + Σ_k t_k B_k is learned. No augmentation parameters are
    used.
    """

    Settings: ClassVar[type[STLSettings]] = STLSettings
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        d, k, f, width = settings.stl_dim, settings.transformation_dim, encoder.feature_dim, context.head_width
        self.head = projection_head(f, width, d)
        self.transformation = projection_head(2 * f, width, k)
        self.maps = nn.Parameter(START * torch.randn(k, d, d))

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless every process holds whole pairs."""
        share = context.batch // context.processes
        if share % 2 or context.batch < 4:
            raise ValueError(
                f"stl pairs images: each process needs an even number of them, and a batch at least 4, got {share} per "
                "process"
            )

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's two views, with augmentations shared by pairs of neighbors."""
        plan = plan_sharing_views(views, policy, batch)
        paired = (dataclasses.replace(view, draws=max(1, batch // 2)) for view in plan.views)
        return dataclasses.replace(plan, views=tuple(paired))

    def terms(self, *views: EncodedView) -> Terms:
        """Both losses, over the images of all processes."""
        (a, b), s = views, self.settings
        y1, y2 = self.forward_views(self.head, [a.f, b.f])
        t: Tensor = self.transformation(torch.cat([a.f, b.f], 1))
        predicted = mapped(y1, swap_pairs(t), self.maps)
        pairs = self.gather(t).unflatten(0, (-1, 2))
        nce = partial(info_nce, temperature=s.stl_temperature)
        return {
            "stl": Term(nce(self.gather(y2), self.gather(predicted)), s.stl_weight),
            "transformation": Term(nce(pairs[:, 0], pairs[:, 1]), s.transformation_weight),
        }


def swap_pairs(t: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """The rows with the two neighbors of every pair swapped."""
    return t.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
