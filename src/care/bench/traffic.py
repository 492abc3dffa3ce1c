"""How many bytes a process sends in a training step on several processes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch.nn.modules.batchnorm import _BatchNorm

from care.objective import Objective

FP32 = 4  # bytes of a gradient, of embeddings too
FP64 = 8  # of BatchNorm's sums in the forward pass; in the backward pass they are in fp32
GATHERED_VIEWS = 2


@dataclass(frozen=True)
class Traffic:
    """Bytes that each of W processes sends in a step, with ring algorithms.

    An all-gather of M bytes (of all processes together) sends M (W − 1)/W, and so does a reduce-scatter; an all-reduce
    sends twice as many.
    """

    embedding_bytes: int
    gradient_bytes: int
    batchnorm_bytes: int


def traffic(
    processes: int,
    batch: int,
    dimension: int,
    parameters: int,
    channels: Sequence[int],
    groups: int,
    embedding_width: int = FP32,
) -> Traffic:
    """A step with a global batch of N = `batch`: two views of N d numbers each are gathered, their gradients summed.

    Gradients are P numbers. A BatchNorm of C channels sums 2 · groups · C numbers forward, and again backward.
    """
    ring = (processes - 1) / processes
    gathered = GATHERED_VIEWS * batch * dimension
    sums = (FP64 + FP32) * sum(2 * groups * c for c in channels)
    return Traffic(
        embedding_bytes=round(ring * gathered * (embedding_width + FP32)),
        gradient_bytes=round(2 * ring * parameters * FP32),
        batchnorm_bytes=round(2 * ring * sums),
    )


def traffic_of(
    objective: Objective, processes: int, batch: int, dimension: int, embedding_width: int = FP32
) -> Traffic:
    """The traffic of an objective that sends all its views through one encoder."""
    trained = sum(p.numel() for p in objective.parameters() if p.requires_grad)
    channels = [module.num_features for module in objective.encoder.modules() if isinstance(module, _BatchNorm)]
    groups = 1 if objective.joint else len(objective.seen)
    return traffic(processes, batch, dimension, trained, channels, groups, embedding_width)
