"""A model of a training step on W processes: what each computes, what it sends, and what it waits for.

Compute is what one process takes alone. On top of it come, in the order of a step: a sum over processes after every
BatchNorm of the forward pass, which the next layer waits for; the gathering of embeddings; the similarities of our own
anchors with the images of the others; the sum of their gradients; and in the backward pass a sum for every BatchNorm,
while the parameters' gradients are averaged in buckets as they become ready. All messages share one channel, in which
a sum for BatchNorm waits for a bucket that was sent before it. At the end, the step waits for the remaining buckets.
"""

import dataclasses
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from care.bench.phases import PHASES
from care.bench.scaling_links import Fabric
from care.bench.traffic import FP32, FP64, GATHERED_VIEWS

# Bucket sizes of DistributedDataParallel, in bytes: the first is small, so that it leaves early.
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20
# The share of the forward pass in forward and backward, if they were not measured separately.
FORWARD_SHARE = 1 / 3


@dataclass(frozen=True)
class Layer:
    """The channels of a BatchNorm, 0 if there is none, and the number of parameters since the previous BatchNorm."""

    channels: int
    parameters: int


@dataclass(frozen=True)
class Workload:
    """The work of one process in a step: seconds of each phase, alone, and the sizes of its messages.

    `similarity` are the seconds, forward and backward, of an anchor's cosine with one embedding.
    """

    batch: int
    dimension: int
    groups: int
    layers: tuple[Layer, ...]
    draw: float
    forward: float
    backward: float
    update: float
    similarity: float
    embedding_width: int = FP32

    @property
    def seconds(self) -> float:
        """The seconds of the step of one process."""
        return self.draw + self.forward + self.backward + self.update

    def scaled(self, seconds: float) -> "Workload":
        """The same work, scaled to `seconds` for a step of one process."""
        phases = {name: getattr(self, name) * seconds / self.seconds for name in PHASES}
        return dataclasses.replace(self, **phases)


@dataclass(frozen=True)
class Simulated:
    """The seconds of a step, by cause. All but `compute` are there because there are several processes."""

    processes: int
    samples: int
    compute: float
    contrast: float
    gather: float
    batchnorm: float
    gradients: float

    @property
    def seconds(self) -> float:
        """The seconds of the step."""
        return self.compute + self.contrast + self.gather + self.batchnorm + self.gradients

    @property
    def efficiency(self) -> float:
        """The rate of a process, as a fraction of its rate alone."""
        return self.compute / self.seconds


def layers_of(network: nn.Module) -> tuple[Layer, ...]:
    """The layers of a network up to each BatchNorm, in the order in which they are defined."""
    layers, parameters = list[Layer](), 0
    for module in network.modules():
        parameters += sum(p.numel() for p in module.parameters(recurse=False) if p.requires_grad)
        if isinstance(module, _BatchNorm):
            layers.append(Layer(module.num_features, parameters))
            parameters = 0
    return (*layers, *([Layer(0, parameters)] if parameters else []))


def simulate(work: Workload, fabric: Fabric, processes: int, normalized_over: int | None = None) -> Simulated:
    """A step on so many processes; BatchNorm's statistics are over all of them, or over `normalized_over`."""
    over = min(processes, normalized_over or processes)
    backward = _Backward(work, fabric, processes, over)
    for layer in reversed(work.layers):
        backward.pass_through(layer)
    gradients = backward.waited + backward.rest()
    return Simulated(
        processes=processes,
        samples=processes * work.batch,
        compute=work.seconds,
        contrast=work.similarity * _anchors(work) * (processes - 1) * _anchors(work),
        gather=_gathering(work, fabric, processes) if processes > 1 else 0.0,
        batchnorm=sum(
            _sum_seconds(work, fabric, layer, over, width) for layer in work.layers for width in (FP64, FP32)
        ),
        gradients=gradients,
    )


class _Backward:
    """The backward pass: the time, when the channel is free again, and the gradients that are ready to be sent."""

    def __init__(self, work: Workload, fabric: Fabric, processes: int, normalized_over: int) -> None:
        self.work, self.fabric, self.processes, self.over = work, fabric, processes, normalized_over
        self.time = self.free = self.waited = 0.0
        self.ready, self.limit = 0, FIRST_BUCKET

    def pass_through(self, layer: Layer) -> None:
        """Compute, wait for BatchNorm's sums over all processes, and send a bucket of gradients if it is full."""
        self.time += self.work.backward / len(self.work.layers)
        seconds = _sum_seconds(self.work, self.fabric, layer, self.over, FP32)
        if seconds:
            begun = max(self.time, self.free)
            self.waited += begun - self.time
            self.time = self.free = begun + seconds
        self.ready += FP32 * layer.parameters
        if self.ready >= self.limit:
            self._send()

    def rest(self) -> float:
        """Seconds until the last gradient has been averaged, after the backward pass."""
        self._send()
        return max(0.0, self.free - self.time)

    def _send(self) -> None:
        self.free = max(self.time, self.free) + self.fabric.all_reduce(self.ready, self.processes)
        self.ready, self.limit = 0, BUCKET


def _anchors(work: Workload) -> int:
    return GATHERED_VIEWS * work.batch


def _gathering(work: Workload, fabric: Fabric, processes: int) -> float:
    """Gather the embeddings in their own precision, and return the gradients of all in fp32."""
    numbers = _anchors(work) * processes * work.dimension
    return sum(fabric.all_gather(width * numbers, processes) for width in (work.embedding_width, FP32))


def _sum_seconds(work: Workload, fabric: Fabric, layer: Layer, processes: int, width: int) -> float:
    """One sum of a BatchNorm: two numbers of every channel and group."""
    return fabric.all_reduce(width * 2 * work.groups * layer.channels, processes) if layer.channels else 0.0
