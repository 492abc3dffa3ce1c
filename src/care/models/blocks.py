"""Compile a network block by block. A repeated block is compiled once, so the wait is shorter than for the whole
network. The step is as fast, because little could be fused across blocks."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import nn

from care.models.per_view import BatchNormPerView

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
# Blocks of a class share code, which is compiled for every shape of a block. By default torch gives up after 8 shapes.
SHAPES_OF_A_BLOCK = 64


def compile_blocks(network: nn.Module, **options: Any) -> bool:
    """Compile the blocks that `network` repeats and the BatchNorms between them, for batches of one shape.

    Returns False, without compiling anything, if no block is repeated.
    """
    kinds = _repeated(network)
    if not kinds:
        return False
    from torch._dynamo import config  # which takes seconds to load

    config.recompile_limit = max(config.recompile_limit, SHAPES_OF_A_BLOCK)
    for region in _regions(network, kinds):
        region.compile(dynamic=False, **options)
    return True


def _repeated(network: nn.Module) -> set[type[nn.Module]]:
    """The classes of composite modules that occur twice with weights of the same shapes; if there are none, the classes
    that occur twice with any weights."""
    composed = [m for m in network.modules() if any(True for _ in m.children()) and type(m) not in CONTAINERS]
    shapes = [(type(module), tuple(p.shape for p in module.parameters())) for module in composed]
    counts, kinds = Counter(each for each in shapes if each[1]), Counter(kind for kind, weights in shapes if weights)
    alike = {kind for (kind, _), count in counts.items() if count > 1}
    return alike or {kind for kind, count in kinds.items() if count > 1}


def _regions(network: nn.Module, kinds: set[type[nn.Module]]) -> Iterator[nn.Module]:
    for child in network.children():
        if type(child) in kinds or isinstance(child, BatchNormPerView):
            yield child
        else:
            yield from _regions(child, kinds)
