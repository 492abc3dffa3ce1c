"""The log within an epoch: means over a fixed number of steps."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from care.train.config import Config
from care.train.progress import Progress, Several
from care.train.schedule import rate_of

LOG_EVERY = 50


@dataclass(frozen=True)
class Reading:
    """The sums of an epoch after `step` of its steps, and the `moment` at which `clocked` steps were done.

    On a GPU, `moment` is an event, and `values` can be read once it has passed.
    """

    step: int
    clocked: int
    values: dict[str, Tensor]
    moment: float | torch.cuda.Event

    @property
    def is_there(self) -> bool:
        """Whether the reading is available without waiting for the GPU."""
        return isinstance(self.moment, float) or self.moment.query()

    def seconds_since(self, earlier: "Reading") -> float:
        """The time between two readings, by the GPU's clock if there is one: the host may be far ahead of it."""
        if isinstance(self.moment, float) or isinstance(earlier.moment, float):
            return float(self.moment) - float(earlier.moment)  # type: ignore[arg-type]
        return earlier.moment.elapsed_time(self.moment) / 1000


class StepMeans(Progress):
    """Passes every event on, and adds `means` after every `every` steps of an epoch and after its last step.

    The means are those of this process over the steps since the previous means, computed from differences of the
    epoch's sums. The host therefore reads nothing in between and never waits: on a GPU the sums are copied in the
    background, and sent when the copy is complete.
    """

    def __init__(self, every: int, *others: Progress) -> None:
        self.every, self.others = every, Several(*others)
        self.epoch_seen = -1
        self.before = Reading(0, 0, {}, 0.0)
        self.waiting: deque[tuple[Reading, int, int, Config]] = deque()

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Read the sums if it is time, and send earlier readings that are available."""
        self.others.step(epoch, step, steps, config, sums)
        self._send(wait=False)
        if epoch != self.epoch_seen:
            self._send(wait=True)
            self.epoch_seen = epoch
            now = _read(step, sums)  # if a run is resumed within an epoch, the earlier sums are not known
            self.before = now if step > 1 else Reading(0, 1, {}, now.moment)
        if step % self.every == 0 or step == steps:
            self.waiting.append((_read(step, sums), epoch, steps, config))
            self._send(wait=False)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Send the remaining means of the epoch, then pass the event on."""
        self._send(wait=True)
        self.others.epoch(record)

    def say(self, *sentences: str) -> None:
        """Pass it on."""
        self.others.say(*sentences)

    def finish(self, complete: bool) -> None:
        """Send the remaining means, then pass the event on."""
        self._send(wait=complete)
        self.others.finish(complete)

    def _send(self, wait: bool) -> None:
        while self.waiting and (wait or self.waiting[0][0].is_there):
            reading, epoch, steps, config = self.waiting.popleft()
            if not reading.is_there:
                torch.cuda.current_stream().synchronize()
            if reading.step > self.before.step:
                self.others.means(_record(self.before, reading, epoch, steps, config))
            self.before = reading


def _read(step: int, sums: Mapping[str, Tensor]) -> Reading:
    """Copy the sums, on a GPU without waiting for it."""
    together = torch.stack(list(sums.values()))
    moment: float | torch.cuda.Event = time.perf_counter()
    if together.device.type == "cuda":
        here = torch.empty(len(together), dtype=together.dtype, pin_memory=True)
        together = here.copy_(together, non_blocking=True)
        moment = torch.cuda.Event(enable_timing=True)
        moment.record()
    return Reading(step, step, dict(zip(sums, together, strict=True)), moment)


def _record(before: Reading, now: Reading, epoch: int, steps: int, config: Config) -> dict[str, Any]:
    """The mean terms of the loss between two readings, the learning rate of the last step, and samples per second."""
    count, done = now.step - before.step, epoch * steps + now.step
    sums = ((name, value.item() - float(before.values.get(name, 0.0))) for name, value in now.values.items())
    rate = rate_of(config, done - 1, steps)
    record = {"epoch": epoch + 1, "step": done, **{name: value / count for name, value in sums}, "learning_rate": rate}
    seconds = now.seconds_since(before)
    if now.clocked > before.clocked and seconds > 0:
        record["samples_per_second"] = round((now.clocked - before.clocked) * config.batch_size / seconds, 1)
    return record
