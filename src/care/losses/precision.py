"""Full precision for a loss, whatever precision the encoder ran in."""

import functools
from collections.abc import Callable
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")


def full_precision(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Run `loss` on tensors of at least fp32, outside autocast, which would cast its products back to half."""

    @functools.wraps(loss)
    def in_full_precision(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        first = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if first is None:
            return loss(*args, **kwargs)  # the loss raises an error that says what it expects
        with torch.autocast(first.device.type, enabled=False):
            return loss(*map(_promote, args), **{k: _promote(v) for k, v in kwargs.items()})  # type: ignore[arg-type]

    return in_full_precision


def _promote(value: object) -> object:
    if isinstance(value, Tensor):
        return value.to(torch.promote_types(value.dtype, torch.float32))
    return value
