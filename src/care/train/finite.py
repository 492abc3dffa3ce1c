"""Noticing that the loss or its gradient is not finite, without making the host wait for the GPU."""

from collections.abc import Mapping

import torch
from torch import Tensor

from care.train import distributed


class FiniteCheck:
    """Looks at the sums of the terms of the loss and of the norm of the gradient: not finite once, they stay so.

    On a GPU, `ask` only asks; the answer is read when the next question is asked, if it is there by then.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.asked: tuple[list[str], Tensor, torch.cuda.Event] | None = None

    def ask(self, sums: Mapping[str, Tensor], step: int) -> None:
        """FloatingPointError if a sum is not finite or, on a GPU, was not when last asked."""
        bad = _not_finite(sums) if self.device.type == "cpu" else self._answer()
        _raise(bad, step)
        if self.device.type != "cpu":
            self._ask(sums)

    def wait(self, sums: Mapping[str, Tensor], step: int) -> None:
        """FloatingPointError if a sum is not finite now: before a checkpoint is written."""
        _raise(_not_finite(sums), step)

    def _ask(self, sums: Mapping[str, Tensor]) -> None:
        flags = torch.stack(list(sums.values())).isfinite()
        here = torch.empty(len(flags), dtype=torch.bool, pin_memory=True)
        here.copy_(flags, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.asked = (list(sums), here, event)

    def _answer(self) -> list[str]:
        if self.asked is None or not self.asked[2].query():
            return []
        names, flags, _ = self.asked
        return [name for name, good in zip(names, flags.tolist(), strict=True) if not good]


def _not_finite(sums: Mapping[str, Tensor]) -> list[str]:
    return [name for name, value in sums.items() if not torch.isfinite(value)]


def _raise(bad: list[str], step: int) -> None:
    """All processes stop if one of them has to."""
    if distributed.any_process(bool(bad)):
        which = ", ".join(bad) or "a term on another process"
        raise FloatingPointError(f"{which} is not finite at step {step}")
