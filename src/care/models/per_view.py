"""One pass through the network for several views, with BatchNorm statistics of each view for itself.

The authors' program sends every view through the encoder on its own, so BatchNorm never mixes views. Concatenating the
views is far faster for the convolutions, but would mix the statistics: here BatchNorm alone works view by view.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Reduce = Callable[[Tensor], Tensor]


class PerView(_BatchNorm):
    """BatchNorm on each of `groups` equal parts of the batch, one after the other, as if they were separate passes.

    With `reduce`, a differentiable sum over all processes, the statistics are those of the part on all processes.
    """

    groups: int = 1
    reduce: Reduce | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each part by its own statistics and update the running ones after each, in order."""
        if not self.training:
            return super().forward(input)
        one = super().forward if self.reduce is None else self._synchronized
        return torch.cat([one(part) for part in input.chunk(self.groups)])

    def _synchronized(self, x: Tensor) -> Tensor:
        """(x − μ) / √(σ² + ε) · γ + β with μ and σ² over all processes, which hold equal parts."""
        dims = [i for i in range(x.ndim) if i != 1]
        shape = [1, -1] + [1] * (x.ndim - 2)
        assert self.reduce is not None
        count = self.reduce(x.new_ones(())) * (x.numel() // x.shape[1])
        mean = self.reduce(x.sum(dims)) / count
        variance = self.reduce((x - mean.view(shape)).square().sum(dims)) / count
        self._update_running(mean.detach(), variance.detach() * count / (count - 1))
        x = (x - mean.view(shape)) * (variance.view(shape) + self.eps).rsqrt()
        return x * self.weight.view(shape) + self.bias.view(shape) if self.affine else x

    def _update_running(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
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
    with _groups(network, 1 if joint else len(views)):
        return list(network(torch.cat(list(views))).chunk(len(views)))


def forward_shuffled(network: nn.Module, view: Tensor, groups: int) -> Tensor:
    """network(view) with BatchNorm in `groups` interleaved parts: rows 0, g, 2g …; 1, g + 1, … and so on.

    MoCo's remedy against BatchNorm giving away which key belongs to which query: a key is normalized together with
    other images than its query.
    """
    order = torch.arange(len(view), device=view.device).view(-1, groups).mT.reshape(-1)
    with _groups(network, groups):
        shuffled: Tensor = network(view[order])
    return torch.empty_like(shuffled).index_copy(0, order, shuffled)


@contextmanager
def _groups(network: nn.Module, groups: int) -> Iterator[None]:
    layers = [module for module in network.modules() if isinstance(module, PerView)]
    for layer in layers:
        layer.groups = groups
    try:
        yield
    finally:
        for layer in layers:
            layer.groups = 1
