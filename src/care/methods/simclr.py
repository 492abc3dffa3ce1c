"""SimCLR (Chen, Kornblith, Norouzi and Hinton, 2020): InfoNCE between the views of a batch, by default two."""

from dataclasses import dataclass
from typing import Any, ClassVar

from care.augment.naming import Policy
from care.losses import info_nce
from care.objective import EncodedView, Method, Settings, Term, Terms, ViewSpec, setting


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(Settings):
    """Settings of SimCLR."""

    temperature: float = setting(0.5, "τ of InfoNCE.", above=0)
    views: int = setting(2, "Views of a sample; with more than two, all pairs are compared.", at_least=2, at_most=64)
    tile: int | None = setting(
        None, "Anchors of InfoNCE at a time; less memory for large batches, the same loss. Default: all.", at_least=1
    )


class SimCLR(Method):
    """L = E_i [−log( e^{z_i·z_i⁺/τ} / Σ_{z ≠ z_i} e^{z_i·z/τ} )], the paper's equation 1."""

    Settings: ClassVar[type[SimCLRSettings]] = SimCLRSettings
    any_views = True

    @classmethod
    def views(cls, settings: Any, policy: Policy, batch: int) -> tuple[ViewSpec, ...]:
        """`views` views, with an augmentation drawn for each sample."""
        return settings.views * (ViewSpec(policy, batch),)

    def terms(self, *views: EncodedView) -> Terms:
        """InfoNCE of all views of our own images; views of other images, of all processes, are negatives."""
        s, z = self.settings, [view.z for view in views]
        return {"info_nce": Term(info_nce(*z, temperature=s.temperature, tile=s.tile, anchors=self.rows))}
