"""Barlow Twins (Zbontar, Jing, Misra, LeCun and Deny, 2021): the views' cross-correlation should be the identity."""

from dataclasses import dataclass

from care.losses import barlow_twins
from care.objective import EncodedView, Method, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class BarlowTwinsSettings(Settings):
    """Settings of Barlow Twins."""

    redundancy: float = setting(5e-3, "Weight of the off-diagonal entries of the cross-correlation.", at_least=0)


class BarlowTwins(Method):
    """L = Σ_i (1 − C_ii)² + redundancy · Σ_{i≠j} C_ij², C the cross-correlation of the views' coordinates."""

    Settings = BarlowTwinsSettings

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of both views, over the images of all processes."""
        a, b = views
        return {"barlow_twins": Term(barlow_twins(a.z, b.z, self.settings.redundancy))}
