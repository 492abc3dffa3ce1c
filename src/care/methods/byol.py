"""BYOL (Grill et al., 2020): predict the teacher's embedding of the other view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from care.losses import byol, mean_over_pairs
from care.methods.teacher import TeacherMethod
from care.models import Encoder, projection_head
from care.objective import Context, EncodedView, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class BYOLSettings(Settings):
    """Settings of BYOL."""

    teacher_momentum: float = setting(
        0.99, "m of θ_teacher ← m θ_teacher + (1 − m) θ at the start; m grows to 1.", at_least=0, below=1
    )
    predictor_width: int | None = setting(
        None, "Width of the predictor. Default: that of the head.", at_least=1, at_most=1 << 16
    )


class BYOL(TeacherMethod):
    """L = E ‖p̂1 − sg ẑ2‖² + E ‖p̂2 − sg ẑ1‖², p = predictor(f(a x)), z = f_teacher(a x), both on the sphere."""

    Settings: ClassVar[type[BYOLSettings]] = BYOLSettings
    head: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": 256,
        "head_width": 4096,
        "head_depth": 2,
        "head_batchnorm": True,
    }
    predictor_ends_as_head: ClassVar[bool] = False
    gathered = False
    any_views = True
    depends_on_length = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        width, d = settings.predictor_width or context.head_width, context.invariant_dim
        last = self.predictor_ends_as_head and context.head_last_batchnorm
        self.predictor = projection_head(d, width, d, last_batchnorm=last)

    @classmethod
    def teacher_views(cls, settings: Any, views: int) -> Sequence[int]:
        """All positions: the teacher sees every view."""
        return range(views)

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of both predictions, over all pairs of views."""
        both = self.predicted_and_taught(*views)
        return {"byol": Term(mean_over_pairs(lambda a, b: byol(a[0], b[0], a[1], b[1]), both))}

    def predicted_and_taught(self, *views: EncodedView) -> list[tuple[Tensor, Tensor]]:
        """(predictor(f(a x)), f_teacher(a x)) of every view."""
        predictions = self.forward_views(self.predictor, [view.z for view in views])
        taught = self.teacher_embeddings(views, self.forward_views)
        return [(p, z[:, : self.context.invariant_dim]) for p, z in zip(predictions, taught, strict=True)]

    def after_step(self, encoder: Encoder, progress: Tensor) -> None:
        """Move the teacher, in ever smaller steps: m = 1 − (1 − m_0) · (cos(π · progress) + 1)/2."""
        momentum = 1 - (1 - self.settings.teacher_momentum) * (torch.cos(torch.pi * progress) + 1) / 2
        self.update_ema(encoder, momentum)
