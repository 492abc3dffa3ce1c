"""Checks that the loss and its gradient are finite, without making the host wait for the GPU."""

from collections.abc import Mapping

import torch
from torch import Tensor

from care.train import distributed


class FiniteCheck:
    """Checks running sums of the terms of the loss and of the gradient's norm: once not finite, they stay so.

    On a GPU, `ask` starts a copy of the flags to the host. The next `ask` reads the copy if it is done, and the hosts
    exchange what they read with the `ask` after that.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.agreed = device, distributed.Agreement(every=1)
        self.asked: tuple[list[str], Tensor, torch.cuda.Event] | None = None

    def ask(self, sums: Mapping[str, Tensor], step: int) -> None:
        """FloatingPointError if a sum is not finite or, on a GPU, was not finite at the last call."""
        if self.device.type == "cpu":
            self.wait(sums, step)
            return
        bad = self._answer()
        if self.agreed(int(bool(bad))):
            raise _error(bad, step)
        self._ask(sums)

    def wait(self, sums: Mapping[str, Tensor], step: int) -> None:
        """FloatingPointError if a sum is not finite now, on any rank. Waits for the GPU; called before a checkpoint."""
        bad = _not_finite(sums)
        if distributed.any_rank(bool(bad)):
            raise _error(bad, step)

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


def _error(bad: list[str], step: int) -> FloatingPointError:
    return FloatingPointError(f"{', '.join(bad) or 'a term on another process'} is not finite at step {step}")
