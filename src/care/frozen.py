"""A network as it is in evaluation."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn


@contextmanager
def frozen(model: object) -> Iterator[None]:
    """A module in evaluation mode, so that an embedding does not depend on the batch, and uncompiled; as it was,
    afterwards."""
    with in_evaluation(model), _uncompiled():
        yield


@contextmanager
def in_evaluation(model: object) -> Iterator[None]:
    """A module in evaluation mode, compiled or not; as it was, afterwards."""
    modules = [m for m in model.modules() if m.training] if isinstance(model, nn.Module) else []
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module in modules:
            module.training = True


def _uncompiled() -> AbstractContextManager[object]:
    """Inside, what is compiled runs as it is: for other batches and other modes it would be compiled again."""
    has_compiler = "torch._dynamo" in sys.modules  # which takes seconds to load
    return torch.compiler.set_stance("force_eager") if has_compiler else nullcontext()
