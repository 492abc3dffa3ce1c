"""The weighted k-nearest-neighbor classifier, the usual training-free check of features."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.evaluate.features.logistic import checked_rows
from care.geometry import Euclidean
from care.geometry.wahba import checked_points

QUERIES_AT_ONCE = 2048

# As usually reported: k = 20 and 200, and the temperature of instance discrimination.
NEIGHBORS, TEMPERATURE = (20, 200), 0.07


def neighbors_within(neighbors: tuple[int, ...], images: int) -> tuple[int, ...]:
    """Those k of which there are so many labeled images; if none is left, all images vote."""
    return tuple(k for k in neighbors if k <= images) or (images,)


def knn_predict(
    bank: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    queries: Float[Tensor, "m d"],
    k: int = NEIGHBORS[0],
    temperature: float = TEMPERATURE,
) -> Int[Tensor, " m"]:
    """The class with the most votes among the k nearest of `bank` by cosine, each vote weighing exp(cos/τ).

    ValueError for features that are not finite, and for images of the bank without a label (−1).
    """
    bank, labels = checked_rows(bank, labels, "bank")
    queries, _ = checked_points(queries, queries, at_least=0)
    bank, classes = Euclidean().embed(bank), int(labels.max()) + 1
    k = min(k, len(bank))
    predictions = []
    for rows in Euclidean().embed(queries).split(QUERIES_AT_ONCE):
        cosine, nearest = (rows @ bank.mT).topk(k, dim=1)
        votes = torch.zeros(len(rows), classes, dtype=bank.dtype, device=bank.device)
        # Relative to the nearest: the same winner, and no overflow however low the temperature.
        votes.scatter_add_(1, labels[nearest], ((cosine - cosine[:, :1]) / temperature).exp())
        predictions.append(votes.argmax(1))
    return torch.cat(predictions)
