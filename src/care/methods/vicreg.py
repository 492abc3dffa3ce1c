"""VICReg (Bardes, Ponce and LeCun, 2022): variance, invariance and covariance regularization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from care.losses import mean_over_pairs, vicreg
from care.objective import EncodedView, Method, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class VICRegSettings(Settings):
    """Settings of VICReg."""

    invariance_weight: float = setting(25.0, "Weight of the mean squared distance of the views.", at_least=0)
    variance_weight: float = setting(25.0, "Weight of the hinge on the standard deviations.", at_least=0)
    covariance_weight: float = setting(1.0, "Weight of the off-diagonal covariances.", at_least=0)


class VICReg(Method):
    """L = 25 · mean (z1 − z2)² + 25 · (V(z1) + V(z2))/2 + C(z1) + C(z2), V and C as in `care.losses.vicreg`."""

    Settings = VICRegSettings
    head: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": 2048,
        "head_width": 2048,
        "head_depth": 3,
        "head_batchnorm": True,
    }
    any_views = True

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of all pairs of views, over the images of all processes."""
        s = self.settings
        weights = (s.invariance_weight, s.variance_weight, s.covariance_weight)
        return {"vicreg": Term(mean_over_pairs(lambda a, b: vicreg(a.z, b.z, *weights), views))}
