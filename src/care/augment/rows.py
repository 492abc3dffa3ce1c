"""Changing some images of a batch."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# What to change them by: the images, and which of all they are, to cut their parameters out.
Change = Callable[[Tensor, slice | Tensor], Tensor]


def change_rows(images: Float[Tensor, "n c h w"], rows: Bool[Tensor, " n"], change: Change) -> Float[Tensor, "n c h w"]:
    """`images` with change(images[i], i) in place of the `rows` i.

    A CPU computes those rows only, and overwrites `images`. A GPU computes all rows and chooses, because the host would
    have to wait for the number of rows.
    """
    if not by_rows(images):
        return torch.where(rows[:, None, None, None], change(images, slice(None)), images)
    chosen = rows.nonzero().squeeze(1)
    if len(chosen) == 0:
        return images
    if len(chosen) == len(images):
        return images.copy_(change(images, slice(None)))
    changed = change(images.index_select(0, chosen), chosen)
    return images.index_copy_(0, chosen, changed.expand(-1, *images.shape[1:]))


def by_rows(images: Tensor) -> bool:
    """Whether to pick rows: on the host, but not in a compiled function, whose shapes are fixed, and not where a
    gradient is wanted, which needs what would be overwritten.
    """
    return images.device.type == "cpu" and not images.requires_grad and not torch.compiler.is_compiling()
