"""DCL (Yeh et al., 2022): SimCLR whose InfoNCE leaves the positive out of the denominator."""

from dataclasses import dataclass
from typing import ClassVar

from care.losses import dcl
from care.methods.simclr import SimCLR, SimCLRSettings
from care.objective import EncodedView, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class DCLSettings(SimCLRSettings):
    """Settings of DCL."""

    temperature: float = setting(0.1, "τ of InfoNCE.", above=0)


class DCL(SimCLR):
    """L = E_i [−z_i·z_i⁺/τ + log Σ_{negatives} e^{z_i·z⁻/τ}]."""

    Settings: ClassVar[type[DCLSettings]] = DCLSettings

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of all views of our own images, with those of all processes as negatives."""
        s, z = self.settings, [view.z for view in views]
        return {"dcl": Term(dcl(*z, temperature=s.temperature, tile=s.tile, anchors=self.rows))}
