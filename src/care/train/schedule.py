"""The learning-rate schedule: a pure function of the step."""

import math
from typing import Literal, get_args

from care.train.config import Config

Kind = Literal["cosine", "constant", "cooldown"]

COOLDOWN = 0.25  # the fraction of training over which "cooldown" falls


def learning_rate(
    step: int,
    total_steps: int,
    base: float,
    warmup_steps: int = 0,
    kind: Kind = "cosine",
) -> float:
    """The learning rate of step k = 0, 1, …, K − 1, for K total steps with W of warm-up.

    Warm-up, k < W:  base · (k + 1)/W
    "cosine":        base · (1 + cos(π (k − W)/(K − W)))/2, which would reach 0 at k = K
    "constant":      base
    "cooldown":      base, and over the last quarter base · (K − k)/(K/4), which would reach 0 at k = K
    """
    _check(step, total_steps)
    if not 0 <= warmup_steps <= total_steps:
        raise ValueError(f"{warmup_steps} steps of warm-up do not fit into {total_steps} steps of training")
    if step < warmup_steps:
        return base * (step + 1) / warmup_steps
    match kind:
        case "cosine":
            return base * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, total_steps - warmup_steps))) / 2
        case "constant":
            return base
        case "cooldown":
            return base * min(1.0, (total_steps - step) / (COOLDOWN * total_steps))
    raise ValueError(f"the schedule must be one of {', '.join(get_args(Kind))}, got {kind!r}")


def rate_of(config: Config, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step of a run; steps count from 0."""
    total, warmup = (epochs * steps_per_epoch for epochs in (config.epochs, config.warmup_epochs))
    return learning_rate(step, total, config.learning_rate, warmup, config.schedule)


def _check(step: int, total_steps: int) -> None:
    if total_steps < 1 or not 0 <= step <= total_steps:
        raise ValueError(f"step {step} is not one of the {total_steps} steps of training")
