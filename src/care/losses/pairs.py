"""Apply a loss of two views to any number of views."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

View = TypeVar("View")


def mean_over_pairs(loss: Callable[[View, View], Tensor], views: Sequence[View]) -> Float[Tensor, ""]:
    """E_{a<b} loss(a, b): the mean of a two-view loss over all pairs of views."""
    return torch.stack([loss(a, b) for a, b in combinations(views, 2)]).mean()
