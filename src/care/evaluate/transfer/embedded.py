"""A data set as a frozen model sees it: features and labels."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from care.augment.naming import Policy
from care.data import Samples, place
from care.evaluate.embedder import Embedder
from care.evaluate.transfer.downstream import Downstream
from care.evaluate.transfer.labels import stratified

VALIDATION = 0.2  # the share of training rows held out to choose the penalty if the data set has no validation split

Model = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A data set as features and labels: rows to fit to, of which `heldout` choose the penalty, and test rows.

    The first `train` rows are those of the split train.
    """

    features: Float[Tensor, "n d"]
    labels: Int[Tensor, " n"]
    heldout: Bool[Tensor, " n"]
    train: int
    test_features: Float[Tensor, "m d"]
    test_labels: Int[Tensor, " m"]


def embed_downstream(
    model: Model,
    downstream: Downstream,
    policy: Policy,
    device: torch.device,
    seed: int = 0,
    batch_size: int | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Embedded:
    """The features of all splits. Without validation samples, a random fifth of each class of train is held out."""
    splits = downstream.splits()
    features: dict[str, Tensor] = {}
    for split, samples in splits.items():
        features[split] = embedder_of(model, samples, policy, device, batch_size).clean()["features"]
        tick(len(features), len(splits))
    labels = {split: samples.labels.to(device) for split, samples in splits.items()}
    n = len(labels["train"])
    test_features, test_labels = features.pop("test"), labels.pop("test")
    joined, classes = torch.cat(list(features.values())), torch.cat(list(labels.values()))
    heldout = torch.arange(len(joined), device=device) >= n
    if downstream.validation is None:
        heldout = stratified(classes, VALIDATION, seed, "validation", leave_one=True)
    return Embedded(joined, classes, heldout, n, test_features, test_labels)


def embedder_of(
    model: Model, samples: Samples, policy: Policy, device: torch.device, batch_size: int | None = None
) -> Embedder:
    """An embedder of `samples` by the model, with the output "features"."""
    return Embedder(lambda x: {"features": model(x)}, place(samples, device), policy, "", device, batch_size)
