"""The base of our own optimizers, whose step updates the weights group by group."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class PerGroup(Optimizer):
    """An optimizer that calls `update` with the weights of a group that have a gradient, and their gradients."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [w for w in group["params"] if w.grad is not None]
            if weights:
                self.update(weights, [w.grad for w in weights], group)
        return loss

    def update(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Change the weights in place."""
        raise NotImplementedError
