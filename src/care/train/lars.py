"""LARS: layer-wise adaptive learning rates."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from care.train.per_group import PerGroup


class LARS(PerGroup):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg, 2017), in the form SimCLR trains with.

    For each weight w with gradient g, weight decay β, momentum m, learning rate γ and trust η:

        u = g + βw,   ρ = η‖w‖/‖u‖,   v ← m v + γρu,   w ← w − v

    with ρ = 1 where ‖w‖ or ‖u‖ is 0, and in groups with `adapt=False`. Nothing here makes the host wait for the GPU.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
        adapt: bool = True,
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "adapt": adapt}
        super().__init__(params, settings)

    def update(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """The formula, weight by weight."""
        for w, g in zip(weights, gradients, strict=True):
            u = g + group["weight_decay"] * w
            if group["adapt"]:
                u = _trust_ratio(w, u, group["trust"]) * u
            state = self.state[w]
            if "velocity" not in state:
                state["velocity"] = torch.zeros_like(w)
            w.sub_(state["velocity"].mul_(group["momentum"]).add_(group["lr"] * u))


def _trust_ratio(w: Tensor, u: Tensor, trust: float) -> Tensor:
    """ρ = η‖w‖/‖u‖, or 1 if a norm is 0."""
    size, change = torch.linalg.vector_norm(w), torch.linalg.vector_norm(u)
    return torch.where((size > 0) & (change > 0), trust * size / change, 1.0)
