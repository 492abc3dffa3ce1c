"""SimCLR (Chen, Kornblith, Norouzi and Hinton, 2020): InfoNCE between two views of a batch."""

from dataclasses import dataclass

from care.losses import info_nce
from care.objective import EncodedView, Method, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(Settings):
    """Settings of SimCLR."""

    temperature: float = setting(0.5, "τ of InfoNCE.", above=0)
    tile: int | None = setting(
        None, "Anchors of InfoNCE at a time: less memory for large batches, the same loss. Default: all.", at_least=1
    )


class SimCLR(Method):
    """L = E_i [−log( e^{z_i·z_i⁺/τ} / Σ_{z ≠ z_i} e^{z_i·z/τ} )], the paper's equation 1."""

    Settings = SimCLRSettings

    def terms(self, *views: EncodedView) -> Terms:
        """InfoNCE of both views, with the images of all processes as negatives."""
        a, b = views
        return {"info_nce": Term(info_nce(a.z, b.z, self.settings.temperature, self.settings.tile))}
