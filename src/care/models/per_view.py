"""One pass through the network for several views, with separate BatchNorm statistics for each view.

The authors' program sends every view through the encoder separately, so BatchNorm never mixes views. Concatenating the
views is far faster for the convolutions, but would mix the statistics: here only BatchNorm works view by view.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from care.models.normalize import Reduce, normalize_parts


class BatchNormPerView(_BatchNorm):
    """BatchNorm on each part of the batch, as if the parts were passed one after the other. `parts` has their relative
    sizes.

    With `reduce`, a sum over all `processes`, the statistics of a part are over all processes, which hold equal shares
    of it.
    """

    parts: tuple[int, ...] = (1,)
    reduce: Reduce | None = None
    processes: int = 1
    # Within `batchnorm_parts`, the means and variances of the parts; running statistics are updated after the pass.
    pending: tuple[Tensor, Tensor] | None = None
    deferred: bool = False
    # With activation checkpointing: the parts of a batch by its shape, for the recomputation in the backward pass.
    checkpointed: bool = False
    parts_before: dict[torch.Size, tuple[int, ...]]

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each part by its own statistics, and update the running ones after each, in order."""
        if not self.training:
            return super().forward(input)
        if self.checkpointed:
            if torch._C._current_graph_task_id() != -1:  # within a backward pass
                return self._again(input)
            self.parts_before[input.shape] = self.parts
        if self.reduce is not None or (len(self.parts) > 1 and torch.compiler.is_compiling()):
            return self._all_parts_at_once(input)
        # One by one: without a compiler, torch's own BatchNorm is faster than the formula.
        return torch.cat([super(BatchNormPerView, self).forward(part) for part in input.split(rows(input, self.parts))])

    def _all_parts_at_once(self, x: Tensor) -> Tensor:
        normalized, mean, variance = self._normalize(x, self.parts)
        self.pending = mean.detach(), variance.detach()
        if not self.deferred:
            update_running_statistics([self])
        return self._activated(normalized)

    def _again(self, x: Tensor) -> Tensor:
        """Recompute the output of the forward pass, without updating the running statistics again."""
        if self.reduce is not None:
            return self._activated(self._normalize(x, self.parts_before[x.shape])[0])
        # Copies, not None: checkpointing requires the same saved tensors as in the forward pass.
        mean, variance = (None if r is None else r.clone() for r in (self.running_mean, self.running_var))
        normalize = partial(
            batch_norm, running_mean=mean, running_var=variance, weight=self.weight, bias=self.bias, training=True,
            momentum=0.0, eps=self.eps,
        )  # fmt: skip
        return torch.cat([self._activated(normalize(part)) for part in x.split(rows(x, self.parts_before[x.shape]))])

    def _normalize(self, x: Tensor, parts: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """(normalized, means, variances) of all parts; neighboring parts of equal size are computed at once."""
        shift = None if self.running_mean is None else self.running_mean.detach().clone()  # it is about to change
        alike = [list(neighbors) for _, neighbors in groupby(rows(x, parts))]
        found = [
            normalize_parts(run, self.weight, self.bias, shift, len(sizes), self.eps, self.reduce, self.processes)
            for run, sizes in zip(x.split([sum(sizes) for sizes in alike]), alike, strict=True)
        ]
        if len(found) == 1:
            return found[0]
        normalized, mean, variance = (torch.cat(each) for each in zip(*found, strict=True))
        return normalized, mean, variance

    def _activated(self, normalized: Tensor) -> Tensor:
        """Apply the activation that some of timm's BatchNorms include."""
        return self.act(self.drop(normalized)) if hasattr(self, "act") else normalized  # type: ignore[operator]


@torch.no_grad()
def update_running_statistics(layers: Sequence[BatchNormPerView]) -> None:
    """Update the running statistics with the parts that the layers have seen, in order, as separate passes would.

    This is done for all layers together and outside of the network, where these updates would be half of all operations
    of a compiled network.
    """
    seen = [(layer, *layer.pending) for layer in layers if layer.pending is not None]
    for layer in layers:
        layer.pending = None
    tracked = [(layer, mean, variance) for layer, mean, variance in seen if layer.running_mean is not None]
    for momentum in {layer.momentum for layer, *_ in tracked if layer.momentum is not None}:
        _follow([each for each in tracked if each[0].momentum == momentum], momentum)
    for each in tracked:
        if each[0].momentum is None:  # each layer has its own count
            _follow([each], None)


def _follow(seen: list[tuple[BatchNormPerView, Tensor, Tensor]], momentum: float | None) -> None:
    """r ← r + m (s − r) for the statistics s of each part; without a momentum m it is 1/n, n the number of parts."""
    counts: list[Any] = [layer.num_batches_tracked for layer, *_ in seen]
    running: list[Any] = [r for layer, *_ in seen for r in (layer.running_mean, layer.running_var)]
    parts = [s.to(r.dtype).unbind() for r, s in zip(running, (s for _, *both in seen for s in both), strict=True)]
    for part in zip(*parts, strict=True):
        torch._foreach_add_(counts, 1)
        weight = momentum if momentum is not None else 1 / float(counts[0])
        torch._foreach_lerp_(running, list(part), weight)


def split_batchnorm(network: nn.Module, reduce: Reduce | None = None, processes: int = 1) -> nn.Module:
    """Make every BatchNorm of `network` a `BatchNormPerView`, in place: weights, names and state dict stay the same.

    With `reduce`, a sum over that many `processes`, statistics are over all processes.
    """
    for module in network.modules():
        if isinstance(module, _BatchNorm) and not isinstance(module, BatchNormPerView):
            module.__class__ = _per_view(type(module))  # type: ignore[arg-type]
        if isinstance(module, BatchNormPerView):
            module.reduce, module.processes = reduce, processes
    return network


@cache
def _per_view(kind: type[_BatchNorm]) -> type[BatchNormPerView]:
    """The same class for all layers of a kind, because the compiler distinguishes blocks by the classes of layers."""
    return type(f"{kind.__name__}PerView", (BatchNormPerView, kind), {})


def checkpoint_activations(network: nn.Module) -> None:
    """Let a model of timm recompute its activations in the backward pass instead of keeping them.

    BatchNorm is recomputed with the same parts, and its running statistics are updated only once.
    """
    if not hasattr(network, "set_grad_checkpointing"):
        raise ValueError("activation_checkpointing works with timm models only: leave it out")
    try:
        network.set_grad_checkpointing(True)  # type: ignore[operator]
    except AssertionError as error:
        raise ValueError(f"timm does not support activation_checkpointing for {type(network).__name__}") from error
    split_batchnorm(network)
    for module in network.modules():
        if isinstance(module, BatchNormPerView):
            module.checkpointed, module.parts_before = True, {}


def forward_views(network: nn.Module, views: Sequence[Tensor], joint: bool = False) -> list[Tensor]:
    """[network(view) for view in views] in one pass; with `joint`, BatchNorm sees all views as one batch."""
    sizes = [len(view) for view in views]
    with batchnorm_parts(network, (1,) if joint else sizes):
        return list(network(torch.cat(list(views))).split(sizes))


def forward_shuffled(network: nn.Module, views: Sequence[Tensor], groups: int) -> list[Tensor]:
    """[network(view) for view in views] in one pass, with BatchNorm in `groups` interleaved parts of each view: rows
    0, g, 2g, …; 1, g + 1, …; and so on.

    This is MoCo's shuffled BatchNorm: a key is normalized together with other images than its query, so that BatchNorm
    does not reveal which key belongs to which query.
    """
    order = torch.arange(len(views[0]), device=views[0].device).view(-1, groups).mT.reshape(-1)
    with batchnorm_parts(network, groups * len(views) * (1,)):
        shuffled: Tensor = network(torch.cat([view[order] for view in views]))
    return [torch.empty_like(part).index_copy(0, order, part) for part in shuffled.chunk(len(views))]


@contextmanager
def batchnorm_parts(network: nn.Module, parts: Sequence[int]) -> Iterator[None]:
    """In this context, BatchNorm of `network` normalizes parts of these relative sizes separately."""
    layers = [module for module in network.modules() if isinstance(module, BatchNormPerView)]
    for layer in layers:
        layer.parts, layer.deferred = tuple(parts), True
    try:
        yield
        update_running_statistics(layers)
    finally:
        for layer in layers:
            layer.parts, layer.deferred, layer.pending = (1,), False, None


def rows(x: Tensor, parts: tuple[int, ...]) -> list[int]:
    """The number of rows of `x` in each part; a layer may see several rows for every sample."""
    return [len(x) * part // sum(parts) for part in parts]
