"""MoCo-v3 (Chen, Xie and He, 2021): InfoNCE with BYOL's networks; a query's negatives are the keys of the batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from care.losses import mean_over_pairs, mocov3
from care.methods.byol import BYOL, BYOLSettings
from care.objective import EncodedView, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class MoCoV3Settings(BYOLSettings):
    """Settings of MoCo-v3."""

    temperature: float = setting(0.2, "τ of InfoNCE.", above=0)


class MoCoV3(BYOL):
    """L = 2τ (L(q1, k2) + L(q2, k1)), L(q, k) = E_i [−log( e^{q_i·k_i/τ} / Σ_j e^{q_i·k_j/τ} )].

    q = predictor(f(a x)), k = f_teacher(a x), and j runs over the images of all processes. If the head ends in a
    BatchNorm, as the authors' does, so does the predictor.
    """

    Settings: ClassVar[type[MoCoV3Settings]] = MoCoV3Settings
    head: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": 256, "head_width": 4096, "head_depth": 2, "head_batchnorm": True, "head_last_batchnorm": True,
    }  # fmt: skip
    predictor_ends_as_head = True

    def terms(self, *views: EncodedView) -> Terms:
        """InfoNCE of our own queries of each view with all keys of another, over all pairs of views."""
        tau, rows = self.settings.temperature, self.rows
        both = [(q, self.gather(k)) for q, k in self.predicted_and_taught(*views)]
        return {"mocov3": Term(mean_over_pairs(lambda a, b: mocov3(a[0], b[0], a[1], b[1], tau, rows), both))}
