"""Student's t distribution with a whole number ν of degrees of freedom."""

import math
from functools import lru_cache

import torch

HALVINGS = 60  # bisections of the angle in the search for a quantile: down to rounding


def tails(t: float, freedom: int) -> float:
    """P(|T| > |t|), to an absolute error of rounding."""
    return max(0.0, 1 - _within(math.atan(abs(t) / math.sqrt(freedom)), freedom))


@lru_cache(maxsize=1024)
def quantile(level: float, freedom: int) -> float:
    """The t with P(|T| ≤ t) = level."""
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|T| ≤ √ν tan θ), a finite sum over the even or odd powers of cos θ below ν:

    sin θ (1 + ½ cos² θ + ½·¾ cos⁴ θ + …) for even ν, 2/π (θ + sin θ cos θ (1 + ⅔ cos² θ + ⅔·⅘ cos⁴ θ + …)) for odd ν
    (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    odd, sine, cosine = freedom % 2, math.sin(angle), math.cos(angle)
    k = torch.arange(1, max(1, freedom // 2), dtype=torch.float64)
    total = 1 + (cosine**2 * (2 * k - 1 + odd) / (2 * k + odd)).cumprod(0).sum().item()
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * cosine * total if freedom > 1 else 0))
