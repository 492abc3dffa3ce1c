"""How convolutions and sums are computed on a GPU: as fast as can be, or in the same order every time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """cuDNN tries its algorithms for every new shape and keeps the fastest: shapes do not change while training."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def ask_for_same_bits() -> None:
    """cuBLAS reads this when a process first uses it, so it has to be said before anything is on the GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def same_bits() -> Iterator[None]:
    """Only algorithms that add up in the same order every time; RuntimeError where there is none."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False  # which is fastest is another one at another time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
