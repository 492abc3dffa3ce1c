"""MoCo-v2: keys from a slowly moving encoder, negatives from a queue."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses import CARE
from care.methods.method import Method, follow
from care.methods.views import ViewPlan
from care.models import Encoder, forward_shuffled, forward_views


class MoCo(Method):
    """InfoNCE between queries f(a x) and keys f_m(a' x), with the keys of earlier batches as negatives.

    The queue and the momentum encoder f_m are part of the state dict. The current keys enter the queue in `after_step`,
    when the loss no longer needs it: they are never their own batch's negatives. It starts as random points of the
    sphere, which the first batches replace. It holds the first `compared` coordinates of the keys: those that are not
    for augmentations to turn.
    """

    queue: Tensor

    def __init__(
        self, encoder: Encoder, loss: CARE, plan: ViewPlan, joint: bool, size: int, compared: int, groups: int
    ) -> None:
        super().__init__(encoder, loss, plan, joint)
        self.groups = groups
        self.momentum_encoder = copy.deepcopy(encoder).requires_grad_(False)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("queue", Euclidean().embed(torch.randn(size, compared, generator=generator)))
        self.keys: list[Tensor] = []

    def forward(self, *drawn: Tensor) -> dict[str, Float[Tensor, ""]]:
        """The terms of the loss: the encoder sees the first view and the chunks, the momentum encoder the second."""
        views, steered_by = self._parted(drawn)
        query, key = self.plan.siamese
        seen = [i for i in range(len(views)) if i != key or i in self.plan.chunked]
        z = dict(zip(seen, forward_views(self.encoder, [views[i] for i in seen], self.joint), strict=True))
        with torch.no_grad():
            keys = forward_shuffled(self.momentum_encoder, views[key], self.groups)
        self.keys.append(keys)
        return self.loss.terms((z[query], keys, self.queue), [z[i] for i in self.plan.chunked], steered_by)

    @torch.no_grad()
    def after_step(self, momentum: float | Tensor) -> None:
        """Move the momentum encoder, and let this step's keys of all processes replace the oldest in the queue."""
        follow(self.momentum_encoder, self.encoder, momentum)
        keys = self.gather(torch.cat(self.keys)[:, : self.queue.shape[1]])
        keys = Euclidean().embed(keys.to(self.queue.dtype))
        self.queue.copy_(torch.cat([keys, self.queue])[: len(self.queue)])
        self.keys.clear()
