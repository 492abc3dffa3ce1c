"""R² and weighted means, image by image: numbers whose mean they are, for intervals."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def r2_units(
    Y: Float[Tensor, "n *rows t"], predicted: Float[Tensor, "n *rows t"], known: Bool[Tensor, " n"] | None = None
) -> Float[Tensor, " n"]:
    """One number per image, u_i = R² − (e_i − (1 − R²) s_i) / E s, whose mean is R² = 1 − Σ_i e_i / Σ_i s_i.

    e_i is the squared error of image i, s_i the squared distance of its target to the mean, both summed over its rows
    and the t columns. The u_i linearize R²: to first order, R² varies with the images as their mean does, and so
    does the difference of the R² of two models. NaN where the target is not `known`, and everywhere if it is constant.
    """
    shown = torch.ones(len(Y), dtype=torch.bool, device=Y.device) if known is None else known
    rows = Y[shown].double().flatten(end_dim=-2)
    varies = (rows != rows[:1]).any()  # the distances to the mean of equal numbers can be off 0 by rounding
    error, spread = ((Y.double() - other).square().flatten(1).sum(1) for other in (predicted.double(), rows.mean(0)))
    spread = torch.where(varies, spread, torch.nan)
    one_minus_r2 = error[shown].sum() / spread[shown].sum()
    units = 1 - one_minus_r2 - (error - one_minus_r2 * spread) / spread[shown].mean()
    return torch.where(shown, units, torch.nan)


def weighted_units(values: Float[Tensor, " n"], weight: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """One number per image, u_i = x̄ + w_i (x_i − x̄) / E w, whose mean is the weighted mean x̄ = Σ_i w_i x_i / Σ_i w_i.

    To first order, x̄ varies with the images as their mean does. A value of weight 0 does not count, not even NaN.
    """
    weight = weight.double()
    x = torch.where(weight > 0, values.double(), 0)
    mean = (weight * x).sum() / weight.sum()
    return mean + weight * (x - mean) / weight.mean()
