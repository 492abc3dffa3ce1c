"""Changing some images of a batch."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Changes images, given these images and their row indices, which select their parameters.
Change = Callable[[Tensor, slice | Tensor], Tensor]


def change_rows(images: Float[Tensor, "n c h w"], rows: Bool[Tensor, " n"], change: Change) -> Float[Tensor, "n c h w"]:
    """`images` with change(images[i], i) in place of the `rows` i.

    A CPU computes only these rows and overwrites `images`. A GPU computes all rows and then selects, because the host
    would have to wait for the number of rows.
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
    """Whether to compute only selected rows: on a CPU, but not in a compiled function, whose shapes are fixed, and not
    where a gradient is needed, which requires the values that would be overwritten.
    """
    return images.device.type == "cpu" and not images.requires_grad and not torch.compiler.is_compiling()
