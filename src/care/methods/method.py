"""A method: an encoder and a loss, from views to the terms of the loss."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.losses import CARE
from care.methods.generators import Generators
from care.methods.views import ViewPlan
from care.models import Encoder, forward_views

Gather = Callable[[Tensor], Tensor]


def on_one_process(x: Tensor) -> Tensor:
    """What gathering over all processes is when there is one."""
    return x


class Method(nn.Module):
    """SimCLR and all methods that compare the embeddings of two views directly (Barlow Twins, VICReg, the ablations).

    Called with what `plan` draws, it returns the terms of the loss by name. Losses that compare images with each
    other see those of all processes: `gather` concatenates over processes and carries gradients back. The chunks of
    the equivariance loss stay on their process. `generators` are those of the steering loss, if there is one.
    """

    def __init__(self, encoder: Encoder, loss: CARE, plan: ViewPlan, joint: bool = False) -> None:
        super().__init__()
        self.encoder, self.loss, self.plan, self.joint = encoder, loss, plan, joint
        self.gather: Gather = on_one_process
        self.generators: Generators | None = None

    def forward(self, *drawn: Tensor) -> dict[str, Float[Tensor, ""]]:
        """The terms of the loss, unweighted."""
        views, steered_by = self._parted(drawn)
        z = forward_views(self.encoder, views, self.joint)
        siamese = tuple(self.gather(z[i]) for i in self.plan.siamese)
        return self.loss.terms(siamese, [z[i] for i in self.plan.chunked], steered_by)

    def _parted(self, drawn: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(the views, what the steering loss takes beside embeddings): nothing of the latter where there is none."""
        views, theta = drawn[: len(self.plan.views)], drawn[len(self.plan.views) :]
        return list(views), [*theta, self.generators()] if self.generators is not None else []

    def after_step(self, momentum: float | Tensor) -> None:
        """What a method does after the optimizer's step: nothing here."""


def follow(target: nn.Module, online: nn.Module, momentum: float | Tensor) -> None:
    """θ_target ← m θ_target + (1 − m) θ_online; BatchNorm's running statistics belong to the target, which looks at
    images itself.
    """
    _lerp(list(target.parameters()), list(online.parameters()), momentum)


def average(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """The same for a target that never looks at an image: it averages the running statistics, too."""
    follow(target, online, momentum)
    ours, theirs = ([b for b in network.buffers() if b.is_floating_point()] for network in (target, online))
    if ours:
        _lerp(ours, theirs, momentum)


@torch.no_grad()
def _lerp(ours: list[Tensor], theirs: list[Tensor], momentum: float | Tensor) -> None:
    ours, theirs = ([tensor.detach() for tensor in tensors] for tensors in (ours, theirs))
    if isinstance(momentum, Tensor):
        way = list(torch._foreach_sub(theirs, ours))
        torch._foreach_mul_(way, 1 - momentum)
        torch._foreach_add_(ours, way)
    else:
        torch._foreach_lerp_(ours, theirs, 1 - momentum)
