"""InfoNCE with debiased negatives that are weighted by their hardness."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_temperature
from care.losses.compare import ALL, compare, mean_over_positives
from care.losses.precision import full_precision


@full_precision
def hard_negatives(
    *views: Float[Tensor, "n d"],
    temperature: float = 0.5,
    class_prior: float = 0.1,
    concentration: float = 1.0,
    tile: int | None = None,
    anchors: slice = ALL,
) -> Float[Tensor, ""]:
    """E_i [−log( e^{s_i⁺} / (e^{s_i⁺} + g_i) )], s = z·z'/τ, with an estimate g_i of the sum over true negatives:

        g_i = max( (Σ_j w_j e^{s_ij} − τ⁺ N e^{s_i⁺}) / (1 − τ⁺), N e^{−1/τ} ),   w_j = e^{β s_ij} / E_k e^{β s_ik}

    The sum runs over the N = 2n − 2 negatives of `info_nce`. The `class_prior` τ⁺ is the share of them that has the
    anchor's class. The larger the `concentration` β, the more weight hard negatives get. β = 0 is the debiased loss;
    β = 0 and τ⁺ = 0 is InfoNCE.
    """
    _check(temperature, class_prior, concentration)
    scales = [(1 + concentration) / temperature, concentration / temperature]
    cosine, (hard, weights) = compare(views, scales, tile, anchors)
    N = 2 * len(views[0]) - 2
    positive, all_negatives = cosine / temperature, hard - weights + math.log(N)
    largest = torch.maximum(positive, all_negatives).detach()  # so that no exponential overflows
    same_class = class_prior * N * (positive - largest).exp()
    least = N * (-1 / temperature - largest).exp()
    g = torch.maximum(((all_negatives - largest).exp() - same_class) / (1 - class_prior), least)
    return mean_over_positives(largest - positive + ((positive - largest).exp() + g).log())


def _check(temperature: float, class_prior: float, concentration: float) -> None:
    check_temperature(temperature)
    if not 0 <= class_prior < 1:
        raise ValueError(f"the class prior must be at least 0 and less than 1, got {class_prior}")
    if not concentration >= 0:
        raise ValueError(f"the concentration must not be negative, got {concentration}")
