"""Contexts in which a network is in evaluation mode."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn


@contextmanager
def frozen(model: object) -> Iterator[None]:
    """Put a module into evaluation mode, uncompiled, so that an embedding does not depend on the batch; restore it
    afterwards."""
    with in_evaluation(model), _uncompiled():
        yield


@contextmanager
def in_evaluation(model: object) -> Iterator[None]:
    """Put a module into evaluation mode, compiled or not, and restore it afterwards."""
    modules = [m for m in model.modules() if m.training] if isinstance(model, nn.Module) else []
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module in modules:
            module.training = True


def _uncompiled() -> AbstractContextManager[object]:
    """Run compiled modules in eager mode: for other batches and other modes they would be compiled again."""
    has_compiler = "torch._dynamo" in sys.modules  # importing it would take seconds
    return torch.compiler.set_stance("force_eager") if has_compiler else nullcontext()
