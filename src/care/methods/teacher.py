"""The base of methods with a teacher: a copy of the encoder that follows it as a moving average."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from care.models import Encoder, Features
from care.objective import Context, EncodedView, Equivariance, Method, teacher_update

Forward = Callable[[nn.Module, list[Tensor]], list[Tensor]]


class TeacherMethod(Method):
    """A method with a teacher, θ_teacher ← m θ_teacher + (1 − m) θ, which sees views and gets no gradient.

    If an equivariance conditions the encoder's head on the augmentation, a copy of it conditions the teacher's head,
    and follows in the same way.
    """

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.teacher = copy.deepcopy(encoder).requires_grad_(False)
        self.teacher_condition: Equivariance | None = None
        self.followed: tuple[Equivariance, ...] = ()  # a tuple, so not a submodule here: the objective owns it

    def condition_teacher(self, condition: Equivariance) -> None:
        """Condition the teacher's head in the same way as the encoder's."""
        self.teacher_condition, self.followed = copy.deepcopy(condition).requires_grad_(False), (condition,)

    @torch.no_grad()
    def teacher_embeddings(self, views: Sequence[EncodedView], forward: Forward) -> list[Tensor]:
        """The teacher's embeddings; `forward` sends several views through a network in one pass."""
        inputs = [view.inputs for view in views]
        if self.teacher_condition is None:
            return forward(self.teacher, inputs)
        features = forward(Features(self.teacher), inputs)
        seen = [dataclasses.replace(view, features=f) for view, f in zip(views, features, strict=True)]
        return self.teacher_condition.embed(self.teacher.head, seen, forward)

    def update_ema(self, encoder: Encoder, momentum: float | Tensor) -> None:
        """Move the teacher, and the copy that conditions its head."""
        teacher_update(self.teacher, encoder, momentum)
        for condition in self.followed:
            assert self.teacher_condition is not None
            teacher_update(self.teacher_condition, condition, momentum)
