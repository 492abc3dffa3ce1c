"""SimCLR with hard negatives (Robinson, Chuang, Sra and Jegelka, 2021), debiased (Chuang et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from care.losses import hard_negatives
from care.methods.simclr import SimCLR, SimCLRSettings
from care.objective import EncodedView, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class HardNegativesSettings(SimCLRSettings):
    """Settings of hard negatives."""

    class_prior: float = setting(0.1, "τ⁺, the share of negatives of the anchor's class.", at_least=0, below=1)
    concentration: float = setting(
        1.0, "β, how strongly hard negatives are weighted. 0: all negatives alike, the debiased loss.", at_least=0
    )


class HardNegatives(SimCLR):
    """L = E_i [−log( e^{s_i⁺} / (e^{s_i⁺} + g_i) )], g_i as in `care.losses.hard_negatives`."""

    Settings: ClassVar[type[HardNegativesSettings]] = HardNegativesSettings

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of all views of our own images, with those of all processes as negatives."""
        s, z = self.settings, [view.z for view in views]
        given = {"class_prior": s.class_prior, "concentration": s.concentration, "tile": s.tile, "anchors": self.rows}
        loss = hard_negatives(*z, temperature=s.temperature, **given)
        return {"hard_negatives": Term(loss)}
