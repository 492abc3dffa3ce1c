"""The paired difference of two models on the same units, with Student's interval, and Holm's correction of many."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.comparison.student import quantile, tails

FEWEST = 3  # units: of two, an interval is too wide to say anything
LEVEL = 0.95
ROUNDING = 1e-6  # of a difference: units that differ from each other by less are equal


@dataclass(frozen=True)
class Difference:
    """The mean of b − a, the ends of its interval, the units it is over, and how many had no value and were left out.

    `p` is the probability of so large a mean, in either direction, were there no difference: below 1 − level where the
    interval excludes 0. Of many differences, some are so by chance: see `holm_adjusted`.
    """

    difference: float
    low: float
    high: float
    units: int
    dropped: int = 0
    p: float = math.nan


def paired_difference(
    a: Float[Tensor, "*seeds units"], b: Float[Tensor, "*seeds units"], level: float = LEVEL, fewest: int = FEWEST
) -> Difference:
    """d = E_i (b_i − a_i) over the n units both share, and d ± t s/√n with Student's t for n − 1 degrees of freedom.

    A unit is what would be drawn anew in a repetition: an image, an augmentation, or a seed. Both models are measured
    on the same units, so that what is hard for both cancels. Units where a or b is NaN are left out of both. With
    [seeds, units], b_i − a_i is the mean over the seeds: the interval is about other units for these seeds, not about
    other seeds. With less than `fewest` units there is no interval, and its ends are NaN. Nor is there one for a few
    units that all differ by the same, as counts do by chance: the sign test, p = 2¹⁻ⁿ, must exclude 0 for them.

    In simulations an interval of 95 % covers the truth 95 % of the time with 3, 5, 8, 20 and 200 normal differences;
    with exponential ones, which are skewed, 89, 88, 90, 91 and 95 %. Bootstrap percentiles, corrected for bias and
    skewness or not, cover less with up to 20 units of either: 73 % of 3 normal ones, 89 % of 8.
    """
    _check(a, b, level)
    change = torch.atleast_2d(b.double() - a.double()).flatten(end_dim=-2).mean(0)
    kept = change[~change.isnan()]
    n, mean = len(kept), kept.mean().item()
    error = kept.std().item() / math.sqrt(n) if n > 1 else 0.0
    error = error if error > ROUNDING * abs(mean) else 0.0
    p = tails(mean / error, n - 1) if error else 2.0 ** (1 - n) if mean else 1.0
    if n < fewest or (not error and mean and p >= 1 - level):
        return Difference(mean, math.nan, math.nan, n, len(change) - n)
    half = quantile(level, n - 1) * error
    return Difference(mean, mean - half, mean + half, n, len(change) - n, p)


def holm_adjusted(p: Sequence[float]) -> list[float]:
    """Holm's p-values, in the same order: with k-th smallest p_(k) of m, max_{j ≤ k} min(1, (m − j + 1) p_(j)).

    If those below α are called differences, the probability that one or more of them is none is at most α, however
    they depend on each other.
    """
    adjusted, least = [math.nan] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        least = max(least, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = least
    return adjusted


def _check(a: Tensor, b: Tensor, level: float) -> None:
    if a.shape != b.shape or a.ndim == 0:
        raise ValueError(f"both models need a value for each unit, got {list(a.shape)} and {list(b.shape)} values")
    if a.isinf().any() or b.isinf().any():
        raise ValueError("an infinite value has no mean: leave out its unit, or make it NaN to have it left out")
    if not 0 < level < 1:
        raise ValueError(f"level must be inside (0, 1), got {level}")
