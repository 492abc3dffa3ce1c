"""E-SSL's loss: by how many quarter turns was a picture turned?"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from care.losses.precision import full_precision


@full_precision
def quarter_turns(logits: Float[Tensor, "n4 4"]) -> Float[Tensor, ""]:
    """E_x E_k [−log softmax(h(f(r^k x)))_k] over k = 0 … 3 quarter turns r^k.

    The first quarter of the rows belongs to the pictures as they are, the second to those turned once, and so on.
    """
    if len(logits) % 4:
        raise ValueError(f"{len(logits)} rows are not four turns of every picture")
    turns = torch.arange(4, device=logits.device).repeat_interleave(len(logits) // 4)
    return cross_entropy(logits, turns)
