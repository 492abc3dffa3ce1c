"""One pass through the network for several views, with BatchNorm statistics of each view for itself.

The authors' program sends every view through the encoder on its own, so BatchNorm never mixes views. Concatenating the
views is far faster for the convolutions, but would mix the statistics: here BatchNorm alone works view by view.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from care.models.normalize import Reduce, normalize_parts


class PerView(_BatchNorm):
    """BatchNorm on each of `groups` equal parts of the batch, as if they went through one after the other.

    With `reduce`, a sum over all processes, the statistics are those of the part on all processes, which
    hold equal shares of it.
    """

    groups: int = 1
    reduce: Reduce | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each part by its own statistics, and update the running ones after each, in order."""
        if not self.training:
            return super().forward(input)
        if self.reduce is not None or (self.groups > 1 and torch.compiler.is_compiling()):
            return self._all_parts_at_once(input)
        # One by one: without a compiler, torch's own BatchNorm is faster than the formula.
        return torch.cat([super(PerView, self).forward(part) for part in input.chunk(self.groups)])

    def _all_parts_at_once(self, x: Tensor) -> Tensor:
        shift = None if self.running_mean is None else self.running_mean.detach().clone()  # it is about to change
        arguments = (self.weight, self.bias, shift, self.groups, self.eps, self.reduce)
        normalized, mean, variance = normalize_parts(x, *arguments)
        self._update_running(mean.detach(), variance.detach())
        # Some of timm's BatchNorms include the activation that follows.
        return self.act(self.drop(normalized)) if hasattr(self, "act") else normalized  # type: ignore[operator]

    def _update_running(self, means: Tensor, variances: Tensor) -> None:
        """Part by part, as separate passes would."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        for mean, variance in zip(means.unbind(), variances.unbind(), strict=True):
            self.num_batches_tracked.add_(1)
            momentum = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
            self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)


def split_batchnorm(network: nn.Module, reduce: Reduce | None = None) -> nn.Module:
    """Make every BatchNorm of `network` a `PerView`, in place: weights, names and state dict stay the same."""
    for module in network.modules():
        if isinstance(module, _BatchNorm) and not isinstance(module, PerView):
            module.__class__ = type(f"PerView{type(module).__name__}", (PerView, type(module)), {})
        if isinstance(module, PerView):
            module.reduce = reduce
    return network


def forward_views(network: nn.Module, views: Sequence[Tensor], joint: bool = False) -> list[Tensor]:
    """[network(view) for view in views] in one pass; with `joint`, BatchNorm sees all views as one batch."""
    with batchnorm_groups(network, 1 if joint else len(views)):
        return list(network(torch.cat(list(views))).chunk(len(views)))


def forward_shuffled(network: nn.Module, view: Tensor, groups: int) -> Tensor:
    """network(view) with BatchNorm in `groups` interleaved parts: rows 0, g, 2g …; 1, g + 1, … and so on.

    MoCo's remedy against BatchNorm giving away which key belongs to which query: a key is normalized together with
    other images than its query.
    """
    order = torch.arange(len(view), device=view.device).view(-1, groups).mT.reshape(-1)
    with batchnorm_groups(network, groups):
        shuffled: Tensor = network(view[order])
    return torch.empty_like(shuffled).index_copy(0, order, shuffled)


@contextmanager
def batchnorm_groups(network: nn.Module, groups: int) -> Iterator[None]:
    """Inside, every `PerView` of `network` sees its batch as `groups` parts, each normalized for itself."""
    layers = [module for module in network.modules() if isinstance(module, PerView)]
    for layer in layers:
        layer.groups = groups
    try:
        yield
    finally:
        for layer in layers:
            layer.groups = 1
