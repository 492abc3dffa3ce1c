"""Whether to compile, and what makes the wait for it shorter."""

import sys
from importlib import import_module
from importlib.util import find_spec

import torch

from care.train.config import Config
from care.train.distributed import Processes

# Compiling takes a minute and saves about 40 µs a sample (ResNet-18 at 32 px on an H200).
SAMPLES_WORTH_COMPILING = 2_000_000


def compiles(config: Config, processes: Processes, samples: int) -> bool:
    """As chosen, or where it saves more time than it takes: on a GPU, unless the run is short."""
    if config.compile is not None:
        return config.compile
    possible = processes.device.type == "cuda" and find_spec("triton") is not None
    return possible and not config.activation_checkpointing and samples >= SAMPLES_WORTH_COMPILING


def start_compilers() -> None:
    """Let torch start its compiling processes, which it does on this import, while the network is being made.

    They take ten seconds to begin, and until then kernels are compiled one by one in this process: ResNet-50 at 224 px
    takes its first step after 56 s instead of 80 (H200).
    """
    import_module("torch._inductor.async_compile")


def keep_what_is_compiled() -> None:
    """Let torch's cache on disk hold networks with a gradient of our own: the second start is some seconds shorter.

    torch leaves them out by default. The formulas of BatchNorm are traced, so they are part of the cache's key.
    """
    from torch._functorch import config

    config.autograd_cache_allow_custom_autograd_functions = True


def forget_compiled() -> None:
    """Let go of what was compiled for another network. Where nothing was, torch's compiler is not loaded for it."""
    if "torch._inductor.compile_fx" in sys.modules:
        torch.compiler.reset()
