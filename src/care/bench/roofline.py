"""The limit: how many operations a step takes, and how many the machine can do."""

import torch
from torch import nn

from care.bench.clock import time_calls
from care.losses import info_nce
from care.objective import build_encoder
from care.train import Config

# Large enough that a product is bound by arithmetic, not by memory or by launching it.
SIDE_ON_GPU, SIDE_ON_CPU = 8192, 2048
# The backward pass of a product is two products of the same size.
PASSES_OF_TRAINING = 3
# Batches in which a similarity of InfoNCE costs as much as in larger ones.
IMAGES_ON_GPU, IMAGES_ON_CPU = 8192, 512


def forward_flops(network: nn.Module, size: int) -> int:
    """Floating-point operations of a forward pass for one image: two per multiply-add."""
    from torch.utils.flop_counter import FlopCounterMode  # takes half a second to import: only where it is needed

    images = torch.zeros(2, 3, size, size)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.eval()(images)
    return int(counter.get_total_flops()) // len(images)


def step_flops(config: Config, size: int) -> int:
    """3 × forward × views × batch, of the encoder alone; a teacher's views count for their forward pass only."""
    passes = PASSES_OF_TRAINING * config.views_a_step
    return round(passes * config.batch_size) * forward_flops(build_encoder(config, (size, size)), size)


def peak_flops(device: torch.device, seconds: float) -> float:
    """Operations per second in a large matrix product, in the precision that training uses: bf16 or fp32."""
    side, dtype = (SIDE_ON_GPU, torch.bfloat16) if device.type == "cuda" else (SIDE_ON_CPU, torch.float32)
    # Noise, because a GPU draws less power, and runs faster, on numbers that are all the same.
    a, b = torch.randn(2, side, side, dtype=dtype, device=device)
    out = torch.empty_like(a)
    return 2 * side**3 / time_calls(lambda: torch.mm(a, b, out=out), device, seconds).fastest


def similarity_seconds(device: torch.device, dimension: int, seconds: float) -> float:
    """Seconds that InfoNCE takes, forward and backward, for each cosine of an anchor with an embedding."""
    images = IMAGES_ON_GPU if device.type == "cuda" else IMAGES_ON_CPU
    z = torch.randn(2, images, dimension, device=device, requires_grad=True)

    def differentiate() -> None:
        torch.autograd.grad(info_nce(*z), z)

    return time_calls(differentiate, device, seconds).median / (2 * images) ** 2
