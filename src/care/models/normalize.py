"""BatchNorm of several parts of a batch at once, with as few passes over memory as possible.

The forward pass reads each part once for its statistics and once to normalize it; the backward pass reads it once for
two sums and once for the gradient. With autograd, the same formula would take twice as many passes.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Reduce = Callable[[Tensor], Tensor]


def normalize_parts(
    x: Float[Tensor, "n c *space"],
    weight: Float[Tensor, " c"] | None,
    bias: Float[Tensor, " c"] | None,
    shift: Float[Tensor, " c"] | None,
    groups: int,
    eps: float,
    reduce: Reduce | None = None,
    processes: int = 1,
) -> tuple[Float[Tensor, "n c *space"], Float[Tensor, "groups c"], Float[Tensor, "groups c"]]:
    """((x − μ) / √(σ² + ε) · weight + bias, μ, unbiased σ²) with μ and σ² of each of `groups` parts and each channel.

    σ² = E(x − s)² − (μ − s)² for a guess s of μ, `shift`, such as the running mean: one pass instead of two, and no
    cancellation if the guess is good. `reduce` sums over all `processes`. These hold equal shares of every part, so the
    number of summands is known without communication, and without waiting for the GPU.
    """
    return _NormalizeParts.apply(x, weight, bias, shift, groups, eps, reduce, processes)


class _NormalizeParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        shift: Tensor | None,
        groups: int,
        eps: float,
        reduce: Reduce | None,
        processes: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        parts, dims = _parts(x, groups)
        guess = 0.0 if shift is None else _along_channels(shift.to(parts.dtype), parts)
        count = processes * _share(parts)
        first, second = _over_processes(*_sums(parts, dims, guess, reduce), reduce)
        offset = first / count
        variance = (second / count - offset.square()).clamp_min(0).to(parts.dtype)
        mean, scale = offset.to(parts.dtype) + guess, (variance + eps).rsqrt()
        out = (parts - mean) * scale
        if weight is not None and bias is not None:
            out = out * _along_channels(weight, parts) + _along_channels(bias, parts)
        found = mean.flatten(1), (variance * count / (count - 1)).flatten(1)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.groups, ctx.reduce, ctx.count = groups, reduce, count
        ctx.mark_non_differentiable(*found)
        # A copy, because activations that follow change their input in place, which autograd forbids for a view.
        return out.flatten(0, 1).to(x.dtype, copy=True), *found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """dx = weight/√(σ² + ε) · (dy − E dy − x̂ E(dy x̂)) with x̂ = (x − μ)/√(σ² + ε)."""
        x, weight, mean, scale = ctx.saved_tensors
        parts, dims = _parts(x, ctx.groups)
        dy, normalized = _parts(gradients[0], ctx.groups)[0], (parts - mean) * scale
        d_bias, d_weight = dy.sum(dims, keepdim=True), (dy * normalized).sum(dims, keepdim=True)
        first, second = _over_processes(d_bias, d_weight, ctx.reduce)
        dx = scale * (dy - (first + normalized * second) / ctx.count)
        if weight is None:
            return dx.flatten(0, 1).to(x.dtype), *[None] * 7
        dx = dx * _along_channels(weight, parts)
        own = (d_weight.flatten(1).sum(0).to(weight.dtype), d_bias.flatten(1).sum(0).to(weight.dtype))
        return dx.flatten(0, 1).to(x.dtype), *own, *[None] * 5


def _parts(x: Tensor, groups: int) -> tuple[Tensor, list[int]]:
    """The parts, at least in float32, and the dimensions over which statistics are computed."""
    parts = x.unflatten(0, (groups, -1)).to(torch.promote_types(x.dtype, torch.float32))
    return parts, [d for d in range(parts.ndim) if d not in (0, 2)]


def _along_channels(vector: Tensor, parts: Tensor) -> Tensor:
    return vector.view([1, 1, -1] + [1] * (parts.ndim - 3))


def _sums(parts: Tensor, dims: list[int], guess: Tensor | float, reduce: Reduce | None) -> tuple[Tensor, Tensor]:
    """Σ (x − s) and Σ (x − s)² of this process.

    With several processes they are in float64: in float32, σ² would lose as many digits as (μ − s)²/σ² has, and the
    guess is poor in the first steps of a run. Without a compiler, an additional pass computes this process's own σ²
    without that loss.
    """
    if reduce is not None and not torch.compiler.is_compiling():
        variance, mean = torch.var_mean(parts, dims, correction=0, keepdim=True)
        offset, n = (mean - guess).double(), _share(parts)
        return n * offset, n * (variance.double() + offset.square())
    centered = parts - guess
    sums = centered.sum(dims, keepdim=True), centered.square().sum(dims, keepdim=True)
    return sums if reduce is None else (sums[0].double(), sums[1].double())


def _share(parts: Tensor) -> int:
    """The number of values that this process holds for each part and channel."""
    return parts[0].numel() // parts.shape[2]


def _over_processes(first: Tensor, second: Tensor, reduce: Reduce | None) -> tuple[Tensor, Tensor]:
    """Two sums over all processes, in one message."""
    if reduce is None:
        return first, second
    a, b = reduce(torch.cat([first.flatten(), second.flatten()])).chunk(2)
    return a.view_as(first), b.view_as(second)
