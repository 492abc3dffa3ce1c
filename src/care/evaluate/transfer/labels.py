"""Choose the labels that a classifier is fitted to, and those that choose its penalty."""

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from care.data.class_rank import rank_within_class
from care.evaluate.features.classification import mean_per_class
from care.randomness import generator_for


def stratified(
    labels: Int[Tensor, " n"], share: float, seed: int, *counters: int | str, leave_one: bool = False
) -> Bool[Tensor, " n"]:
    """A random share of the rows of each class, at least one.

    With `leave_one`, at least one row of every class is left out; a class with a single row then contributes none.
    """
    here = labels.cpu().long()
    counts = torch.bincount(here)
    most = counts - 1 if leave_one else counts
    take = (share * counts).round().long().clamp_min(1).minimum(most.clamp_min(0))
    order = torch.randperm(len(here), generator=generator_for("cpu", seed, *counters))
    chosen = torch.zeros(len(here), dtype=torch.bool)
    chosen[order] = rank_within_class(here[order]) < take[here[order]]
    return chosen.to(labels.device)


def accuracies(correct: Bool[Tensor, " n"], labels: Int[Tensor, " n"]) -> dict[str, float]:
    """Top-1 accuracy, and the mean accuracy per class."""
    return {"top1": correct.double().mean().item(), "mean_per_class": mean_per_class(correct, labels)}


def class_weights(labels: Int[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Weights n / (classes · n_c), of mean 1, that give every class the same weight.

    The weighted mean over rows is then the mean accuracy per class.
    """
    present, inverse, counts = labels.unique(return_inverse=True, return_counts=True)
    return (len(labels) / (len(present) * counts.double()))[inverse]
