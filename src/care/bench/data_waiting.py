"""The share of a training step that the GPU waits for its batch, for batches from any source."""

import gc
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from care.bench.clock import Timing, time_calls
from care.bench.messages import Say, then_measuring
from care.bench.results import Row
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.training import build_step, building, warmup_calls
from care.data import Samples
from care.train import distributed
from care.train.step import Step

Stream = Generator[Tensor, Any, Any]  # endless batches; can be closed

NOTE = (
    "Waiting: 1 − (a CARE step on one batch already on the GPU) / (a CARE step on batches as they arrive); the former "
    "is the mean of a measurement before and one after the latter, since the speed of a GPU changes."
)


def full_batches(samples: Samples, size: int, epochs: Iterable[int]) -> Iterator[Tensor]:
    """The indices of full batches, as in training, one epoch after the other."""
    for epoch in epochs:
        yield from samples.order(0, epoch)[: len(samples) // size * size].split(size)


class FedStep:
    """A CARE step for batches of one shape: how long it takes alone, and on the batches of several streams."""

    def __init__(self, settings: Settings, **chosen: Any) -> None:
        self.settings, self.processes = settings, distributed.start(settings.device)
        self.step: Step | None = build_step(settings, self.processes, **CARE_SETTINGS, **chosen)
        self.alone: Timing | None = None

    def time_alone(self, batch: Tensor, say: Say) -> Timing:
        """Time a step on a batch that is already on the device."""
        step, seconds = self.step, self.settings.seconds
        assert step is not None
        say(f"a CARE step on one batch: {building(self.settings)}")
        calls, begun = warmup_calls(step), then_measuring(say, "step", seconds)
        self.alone = time_calls(lambda: step([batch], 0), self.processes.device, seconds, calls, begun=begun)
        return self.alone

    def measure(self, stream: Stream, say: Say) -> Row:
        """The share of a step that waits for its batch, and milliseconds per step, fed and alone. Closes the stream."""
        step, device, seconds = self.step, self.processes.device, self.settings.seconds
        assert step is not None
        try:
            batch = next(stream)
            before = (self.alone or self.time_alone(batch, say)).median
            say(f"{1e3 * before:.1f} ms a step alone; fed, measuring for {seconds:g} s")
            fed = time_calls(lambda: step([next(stream)], 0), device, seconds).median
        finally:
            stream.close()
        self.alone = time_calls(lambda: step([batch], 0), device, seconds)
        alone = (before + self.alone.median) / 2
        share = max(0.0, 1 - alone / fed)
        say(f"{1e3 * fed:.1f} ms a step fed, of which it waits for {share:.1%}")
        return {"waiting_share": share, "ms_per_step": 1e3 * fed, "alone_ms": 1e3 * alone}

    def forget(self) -> None:
        """Free the memory of the step: at 224 pixels, two steps do not fit on a GPU."""
        self.step = None
        gc.collect()  # a step and its CUDA graph refer to each other
        if self.processes.device.type == "cuda":
            torch.cuda.empty_cache()
