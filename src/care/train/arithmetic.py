"""How torch computes on a GPU: with the fastest algorithms, or with deterministic ones."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def cudnn_benchmark() -> Iterator[None]:
    """Let cuDNN time its algorithms for every new shape and use the fastest: shapes do not change during training."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def set_cublas_workspace() -> None:
    """Set the cuBLAS workspace for deterministic algorithms. cuBLAS reads it once, before anything is on the GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Allow only deterministic algorithms; RuntimeError for operations that have none."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False  # which algorithm is the fastest varies from run to run
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
