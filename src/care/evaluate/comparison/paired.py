"""The paired difference of two models on the same units, with Student's interval, and Holm's correction of many."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.comparison.student import quantile, tails

FEWEST = 3  # units: with two, an interval is too wide to say anything
LEVEL = 0.95
ROUNDING = 1e-6  # relative to a difference: units that vary by less are equal


@dataclass(frozen=True)
class Difference:
    """The mean of b − a, the ends of its interval, the number of units, and how many were left out for lack of a value.

    `p` is the probability of a mean at least this large, in either direction, if there were no difference: below
    1 − level if the interval excludes 0. Among many differences, some are so by chance: see `holm_adjusted`.
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

    A unit is what a repetition would draw anew: an image, an augmentation, or a seed. Both models are measured on the
    same units, so that difficulty common to both cancels. Units where a or b is NaN are left out of both. With
    [seeds, units], b_i − a_i is the mean over the seeds: the interval covers other units for these seeds, not other
    seeds. With fewer than `fewest` units there is no interval, and its ends are NaN. The same holds for a few units
    that all differ by the same amount, as counts can by chance, unless the sign test, p = 2¹⁻ⁿ, excludes 0. Where both
    models agree on all units, the interval has no width: how often they would disagree on others is not known.

    For measures averaged over augmentations and images, see `two_way_difference`.

    In simulations, a 95 % interval covers the truth 95 % of the time with 3, 5, 8, 20 and 200 normal differences; with
    exponential differences, which are skewed, 89, 88, 90, 91 and 95 %. Bootstrap percentiles, corrected for bias and
    skewness or not, cover less with up to 20 units of either kind: 73 % with 3 normal units, 89 % with 8.
    """
    _check(a, b, level)
    mean, error, n, dropped = _mean_and_error(a, b)
    p = tails(mean / error, n - 1) if error else 2.0 ** (1 - n) if mean else 1.0
    if n < fewest or (not error and mean and p >= 1 - level):
        return Difference(mean, math.nan, math.nan, n, dropped)
    half = quantile(level, n - 1) * error
    return Difference(mean, mean - half, mean + half, n, dropped, p)


def two_way_difference(
    a: Float[Tensor, " V"],
    b: Float[Tensor, " V"],
    a_images: Float[Tensor, " n"],
    b_images: Float[Tensor, " n"],
    level: float = LEVEL,
    fewest: int = FEWEST,
) -> Difference:
    """d = E_v (b_v − a_v) for measures of V augmentations on the same n images, if a repetition draws both anew.

    SE² = Var_v(b_v − a_v) / V + Var_i(b_i − a_i) / n, where the value of an image is what it adds to the mean over
    augmentations, and t has the degrees of freedom of Satterthwaite. What varies with both is counted twice: intervals
    are rather too wide. A single augmentation, such as a flip, is not drawn: its interval is over the images alone.
    There, SE² also has the squared distance of d from the mean over images, whose rotations shrink toward the identity
    where noise hides them: that all images hardly rotate does not say how far the corrected d is from the truth.
    """
    _check(a, b, level)
    _check(a_images, b_images, level)
    mean, over_augmentations, V, dropped = _mean_and_error(a, b)
    of_images, over_images, n, _ = _mean_and_error(a_images, b_images)
    error = math.hypot(over_augmentations, over_images)
    if math.isnan(mean) or (fewest > V and len(a) > 1) or n < fewest or (not error and mean):
        return Difference(mean, math.nan, math.nan, V, dropped)
    if not error:
        return Difference(mean, mean, mean, V, dropped, 1.0)
    smaller = over_augmentations**4 / max(1, V - 1) + over_images**4 / (n - 1)
    freedom = max(1, math.floor(error**4 / smaller))
    error = math.hypot(error, mean - of_images) if len(a) == 1 else error
    half = quantile(level, freedom) * error
    return Difference(mean, mean - half, mean + half, V, dropped, tails(mean / error, freedom))


def _mean_and_error(
    a: Float[Tensor, "*seeds units"], b: Float[Tensor, "*seeds units"]
) -> tuple[float, float, int, int]:
    """(mean of b − a, its standard error over units, their number, how many have no value)."""
    change = torch.atleast_2d(b.double() - a.double()).flatten(end_dim=-2).mean(0)
    kept = change[~change.isnan()]
    n, mean = len(kept), kept.mean().item()
    error = kept.std().item() / math.sqrt(n) if n > 1 else 0.0
    return mean, error if error > ROUNDING * abs(mean) else 0.0, n, len(change) - n


def holm_adjusted(p: Sequence[float]) -> list[float]:
    """Holm's p-values, in the same order: with k-th smallest p_(k) of m, max_{j ≤ k} min(1, (m − j + 1) p_(j)).

    If all differences with values below α are called real, the probability that any of them is not is at most α,
    however they depend on each other.
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
