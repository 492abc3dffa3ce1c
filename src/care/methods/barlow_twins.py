"""Barlow Twins (Zbontar, Jing, Misra, LeCun and Deny, 2021): the views' cross-correlation should be the identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from care.losses import barlow_twins, mean_over_pairs
from care.objective import EncodedView, Method, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class BarlowTwinsSettings(Settings):
    """Settings of Barlow Twins."""

    redundancy: float = setting(5e-3, "Weight of the off-diagonal entries of the cross-correlation.", at_least=0)


class BarlowTwins(Method):
    """L = Σ_i (1 − C_ii)² + redundancy · Σ_{i≠j} C_ij², C the cross-correlation of the views' coordinates."""

    Settings = BarlowTwinsSettings
    head: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": 2048,
        "head_width": 2048,
        "head_depth": 3,
        "head_batchnorm": True,
    }
    any_views = True

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of all pairs of views, over the images of all processes."""
        weight = self.settings.redundancy
        return {"barlow_twins": Term(mean_over_pairs(lambda a, b: barlow_twins(a.z, b.z, weight), views))}
