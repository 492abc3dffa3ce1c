"""Where the time of a training step goes: drawing views, forward, backward, update."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from care.bench.clock import seconds_of, time_calls
from care.objective import View, total
from care.train.graph import CALLS_BEFORE_CAPTURE, Graph
from care.train.step import Step

PHASES = ("draw", "forward", "backward", "update")


class Phases:
    """A step as `Step` computes it, phase by phase; each phase stores what the next one needs."""

    def __init__(self, step: Step, images: Tensor) -> None:
        self.step, self.images, self.generator = step, images, torch.Generator(images.device)
        self.views: tuple[View, ...] = ()
        self.loss = torch.zeros(())

    def draw(self) -> None:
        """Draw augmentations and apply them."""
        batch, plan = self.step.config.batch_size, self.step.state.objective.plan
        rows = self.step.processes.rows(batch)
        self.views = plan.draw(self.images, batch, rows, self.generator, self.step.make)

    def forward(self) -> None:
        """From views to the loss."""
        self.loss = total(self.step._terms(self.views))

    def backward(self) -> None:
        """From the loss to gradients."""
        self.step.state.optimizer.zero_grad(set_to_none=True)
        self.loss.backward()

    def update(self) -> None:
        """Update the parameters, and whatever follows them, such as a teacher."""
        self.step.state.optimizer.step()
        self.step.state.objective.after_step(self.step.progress)

    def until(self, last: str) -> None:
        """Run the step up to the end of the phase `last`."""
        for name in PHASES[: PHASES.index(last) + 1]:
            getattr(self, name)()
        getattr(self.step.state.objective.method, "keys", []).clear()  # MoCo keeps them for an update that may not come
        self.views, self.loss = (), torch.zeros(())


def phase_seconds(step: Step, images: Tensor, whole: float, seconds: float) -> dict[str, float]:
    """Seconds of each phase of a step that takes `whole`: one by one, or by prefixes where the step is a CUDA graph.

    Launched one by one, the kernels of a phase would take the host longer than they take the GPU in a graph.
    """
    phases = Phases(step, images)
    return by_prefixes(phases, whole, seconds / 4) if step.graph else one_by_one(phases, seconds)


def one_by_one(phases: Phases, seconds: float) -> dict[str, float]:
    """The median time of each phase; the host waits for the device in between."""
    times: dict[str, list[float]] = {name: [] for name in PHASES}
    end = time.perf_counter() + seconds
    while not times["draw"] or time.perf_counter() < end:
        for name in PHASES:
            times[name].append(seconds_of(getattr(phases, name), 1, phases.images.device))
    return {name: statistics.median(values) for name, values in times.items()}


def by_prefixes(
    phases: Phases, whole: float, seconds: float, capture: Callable[..., Callable[..., None]] = Graph
) -> dict[str, float]:
    """Differences between the times of prefixes of the step, each captured as a graph; they add up to `whole`."""
    ends = list[float]()
    for name in PHASES[:-1]:
        phases.generator = torch.Generator(phases.images.device)  # a graph has a generator of its own
        graph = capture(partial(_until, phases, name), [phases.generator])
        call = partial(graph, phases.images)
        ends.append(time_calls(call, phases.images.device, seconds, CALLS_BEFORE_CAPTURE + 1).median)
    ends.append(whole)
    return {name: end - start for name, start, end in zip(PHASES, [0.0, *ends], ends, strict=False)}


def _until(phases: Phases, last: str, images: Tensor) -> None:
    """`phases.until` with the input that a graph must have; it is always the same."""
    phases.until(last)
