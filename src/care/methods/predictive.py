"""BYOL and SimSiam: predict the embedding of the other view."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from care.losses import CARE
from care.methods.method import Method, follow
from care.methods.views import ViewPlan
from care.models import Encoder, forward_views, projection_head


class Predictive(Method):
    """A predictor on top of the encoder guesses the target's embedding of the other view.

    BYOL's target is a momentum encoder; SimSiam's, with `momentum_target=False`, the encoder itself without gradient.
    The equivariance loss looks at the encoder's embeddings, not at the predictions, which are of the first `compared`
    coordinates: those that are not for augmentations to turn.
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: CARE,
        plan: ViewPlan,
        joint: bool,
        compared: int,
        width: int,
        momentum_target: bool,
    ) -> None:
        super().__init__(encoder, loss, plan, joint)
        self.compared, self.predictor = compared, projection_head(compared, width, compared)
        self.momentum_encoder = copy.deepcopy(encoder).requires_grad_(False) if momentum_target else None

    def forward(self, *drawn: Tensor) -> dict[str, Float[Tensor, ""]]:
        """The terms of the loss."""
        views, steered_by = self._parted(drawn)
        z = forward_views(self.encoder, views, self.joint)
        first, second = self.plan.siamese
        predictions = forward_views(self.predictor, [z[i][:, : self.compared] for i in (first, second)], self.joint)
        targets = [z[first], z[second]]
        if self.momentum_encoder is not None:
            with torch.no_grad():
                targets = forward_views(self.momentum_encoder, [views[first], views[second]], self.joint)
        return self.loss.terms((*predictions, *targets), [z[i] for i in self.plan.chunked], steered_by)

    def after_step(self, momentum: float | Tensor) -> None:
        """Move the target."""
        if self.momentum_encoder is not None:
            follow(self.momentum_encoder, self.encoder, momentum)
