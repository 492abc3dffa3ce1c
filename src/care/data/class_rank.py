"""The place of a sample among those of its class."""

import torch
from jaxtyping import Int, Int64
from torch import Tensor


def rank_within_class(labels: Int[Tensor, " n"]) -> Int64[Tensor, " n"]:
    """r_i = |{j < i : y_j = y_i}|: how many earlier samples have the class of sample i."""
    ascending, order = labels.sort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(labels), device=labels.device) - torch.searchsorted(ascending, ascending)
    return rank
