"""The paired difference of two models on the same images or augmentations, with its bootstrap interval."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.randomness import generator_for

# Resampled units are drawn in blocks of about this many (16 MiB of indices and values), which stay near the processor.
DRAWS_AT_ONCE = 2**20
FEWEST = 6  # units: resampling fewer gives intervals that are far too narrow


@dataclass(frozen=True)
class Difference:
    """The mean of b − a, the ends of its interval, the units it is over, and how many had no value and were left out.

    A difference whose interval contains 0 is not significant.
    """

    difference: float
    low: float
    high: float
    units: int
    dropped: int = 0


def paired_difference(
    a: Float[Tensor, "*seeds units"],
    b: Float[Tensor, "*seeds units"],
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """E_i (b_i − a_i) over the units both share, and the `level` percentile interval of the means of resampled units.

    A unit is what would be drawn anew in a repetition: an image, or an augmentation. Both models are measured on the
    same units, so that what is hard for both cancels. Units where a or b is NaN are left out of both. With [seeds,
    units], b_i − a_i is the mean over the seeds: the interval is about other images for these seeds, not about other
    seeds. With fewer than 6 units there is no interval, and its ends are NaN.

    The percentiles are not corrected for bias and skewness (BCa): in simulations that covered the truth no more often
    on the whole (50 lognormal differences: 91 % against 89 %; 50 of heavy tails: 92 % against 94 %). Below 30 units
    the interval is too narrow, as all of its kind: one of "95 %" covers 92 % with 20 normal differences, 89 % with 8.
    """
    _check(a, b, resamples, level)
    change = torch.atleast_2d(b.double() - a.double()).flatten(end_dim=-2).mean(0)
    kept = change[~change.isnan()]
    units, dropped = len(kept), len(change) - len(kept)
    if units < FEWEST:
        return Difference(kept.mean().item(), math.nan, math.nan, units, dropped)
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=kept.dtype, device=kept.device)
    low, high = _resampled_means(kept, resamples, seed).quantile(tails).tolist()
    return Difference(kept.mean().item(), low, high, units, dropped)


def _resampled_means(values: Float[Tensor, " n"], resamples: int, seed: int) -> Float[Tensor, " resamples"]:
    """The mean of n draws from `values` with replacement, so many times."""
    generator, n = generator_for(values.device, seed, "bootstrap"), len(values)
    rows_at_once = max(1, DRAWS_AT_ONCE // n)
    means = []
    for start in range(0, resamples, rows_at_once):
        shape = (min(rows_at_once, resamples - start), n)
        means.append(values[torch.randint(n, shape, generator=generator, device=values.device)].mean(1))
    return torch.cat(means)


def _check(a: Tensor, b: Tensor, resamples: int, level: float) -> None:
    if a.shape != b.shape or a.ndim == 0:
        raise ValueError(f"both models need a value for each unit, got {list(a.shape)} and {list(b.shape)} values")
    if a.isinf().any() or b.isinf().any():
        raise ValueError("an infinite value has no mean: leave out its unit, or make it NaN to have it left out")
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(f"resamples must be at least 1 and level inside (0, 1), got {resamples} and {level}")
