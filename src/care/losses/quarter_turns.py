"""E-SSL's loss: predict by how many quarter turns an image was rotated."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from care.losses.precision import full_precision


@full_precision
def quarter_turns(logits: Float[Tensor, "n4 4"]) -> Float[Tensor, ""]:
    """E_x E_k [−log softmax(h(f(r^k x)))_k] over k = 0 … 3 quarter turns r^k.

    The first quarter of the rows belongs to the unrotated images, the second to images turned once, and so on.
    """
    if len(logits) % 4:
        raise ValueError(f"{len(logits)} rows are not a multiple of 4: pass logits of all four turns of every image")
    turns = torch.arange(4, device=logits.device).repeat_interleave(len(logits) // 4)
    return cross_entropy(logits, turns)
