"""MoCo's form of InfoNCE: the negatives are a queue of keys from earlier batches."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_temperature
from care.losses.precision import full_precision


@full_precision
def queue_info_nce(
    query: Float[Tensor, "n d"], key: Float[Tensor, "n d"], queue: Float[Tensor, "k d"], temperature: float = 0.1
) -> Float[Tensor, ""]:
    """E_i [−log( e^{q_i·k_i/τ} / (e^{q_i·k_i/τ} + Σ_j e^{q_i·queue_j/τ}) )].

    Keys and queue come from the teacher and carry no gradient. The queue must not hold the current keys:
    append them after this loss, never before.
    """
    if query.shape != key.shape or queue.shape[1:] != query.shape[1:] or len(queue) == 0:
        shapes = f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(queue.shape)}"
        raise ValueError(f"query and key must be [n, d] and the queue [k, d] with k ≥ 1, got {shapes}")
    check_temperature(temperature)
    q, k, negatives = (Euclidean().embed(z) for z in (query, key.detach(), queue.detach()))
    positive = (q * k).sum(1, keepdim=True)
    logits = torch.cat([positive, q @ negatives.mT], dim=1) / temperature
    return (logits.logsumexp(1) - logits[:, 0]).mean()
