"""A bilinear decoder of augmentations that rotate features, whose parameters are linear in neither h(x) nor h(a(x))."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize, pad

from care.evaluate.decoding.ridge import ridge_predictions
from care.geometry import leading_directions

ROWS_PER_PRODUCT = 4  # fitted rows for each product: with fewer, the penalty dominates ridge regression

Pair = tuple[Float[Tensor, "n f"], Float[Tensor, "n f"]]  # h(x) and h(a(x))


def bilinear_predictions(
    fitted: Pair,
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: tuple[Float[Tensor, "m f"], Float[Tensor, "m f"]],
) -> Float[Tensor, "m t"]:
    """Targets of the pairs `others` by ridge regression on h(x), h(a(x)) and the products u_i v_j.

    u = (1, Pᵀ h(x)/‖h(x)‖) and v = (1, Pᵀ h(a(x))/‖h(a(x))‖), where P holds as many principal directions of the
    fitted rows as leave four rows for each product. A rotation by θ in one plane has sin θ ∝ u_1 v_2 − u_2 v_1.
    """
    directions = torch.cat([normalize(H.double()) for H in fitted])
    center = directions.mean(0)
    k = max(1, min(directions.shape[1], math.isqrt(len(Y) // ROWS_PER_PRODUCT) - 1))
    P = leading_directions(directions - center, k)
    return ridge_predictions(_products(fitted, P, center), Y, known, _products(others, P, center))


def _products(pair: Pair, P: Float[Tensor, "f k"], center: Float[Tensor, " f"]) -> Float[Tensor, "n p"]:
    """The rows h(x), h(a(x)) and all u_i v_j."""
    u, v = (pad((normalize(H.double()) - center) @ P, (1, 0), value=1.0) for H in pair)
    return torch.cat([*(H.double() for H in pair), (u[:, :, None] * v[:, None, :]).flatten(1)], dim=1)
