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
    train_features: Float[Tensor, "n d"],
    train_labels: Int[Tensor, " n"],
    test_features: Float[Tensor, "m d"],
    k: int = NEIGHBORS[0],
    temperature: float = TEMPERATURE,
) -> Int[Tensor, " m"]:
    """The class with the most votes among the k nearest training rows by cosine, each vote weighing exp(cos/τ).

    ValueError for features that are not finite, and for training rows without a label (−1).
    """
    train_features, train_labels = checked_rows(train_features, train_labels, "training")
    test_features, _ = checked_points(test_features, test_features, at_least=0)
    train_features, classes = Euclidean().embed(train_features), int(train_labels.max()) + 1
    k = min(k, len(train_features))
    predictions = []
    for rows in Euclidean().embed(test_features).split(QUERIES_AT_ONCE):
        cosine, nearest = (rows @ train_features.mT).topk(k, dim=1)
        votes = torch.zeros(len(rows), classes, dtype=train_features.dtype, device=train_features.device)
        # Relative to the nearest: the same winner, and no overflow however low the temperature.
        votes.scatter_add_(1, train_labels[nearest], ((cosine - cosine[:, :1]) / temperature).exp())
        predictions.append(votes.argmax(1))
    return torch.cat(predictions)
