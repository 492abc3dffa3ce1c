"""Decide whether to compile the network, and shorten the wait for it."""

import sys
from importlib import import_module
from importlib.util import find_spec

import torch

from care.train.config import Config
from care.train.distributed import Processes

# Compiling takes a minute and saves about 40 µs a sample (ResNet-18 at 32 px on an H200).
SAMPLES_WORTH_COMPILING = 2_000_000


def compiles(config: Config, processes: Processes, samples: int) -> bool:
    """As chosen; by default if compiling saves more time than it takes: on a GPU, unless the run is short."""
    if config.compile is not None:
        return config.compile
    possible = processes.device.type == "cuda" and find_spec("triton") is not None
    return possible and not config.activation_checkpointing and samples >= SAMPLES_WORTH_COMPILING


def start_compilers() -> None:
    """Start torch's compiler processes, by an import, while the network is being built.

    They take ten seconds to start, and until then kernels are compiled one by one in this process. The first step of a
    ResNet-50 at 224 px comes after 56 s instead of 80 (H200).
    """
    import_module("torch._inductor.async_compile")


def keep_what_is_compiled() -> None:
    """Let torch's disk cache hold networks with custom gradients: the second start is some seconds shorter.

    By default torch does not cache them. Here it is safe: our BatchNorm is traced, and so part of the cache key.
    """
    from torch._functorch import config

    config.autograd_cache_allow_custom_autograd_functions = True


def forget_compiled() -> None:
    """Discard networks compiled earlier, without loading torch's compiler if there are none."""
    if "torch._inductor.compile_fx" in sys.modules:
        torch.compiler.reset()
