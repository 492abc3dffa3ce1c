"""MoCo-v3's form of InfoNCE: the negatives of a query are the keys of the other images of the batch."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_temperature, check_views
from care.losses.compare import ALL
from care.losses.precision import full_precision


@full_precision
def mocov3(
    q1: Float[Tensor, "m d"],
    q2: Float[Tensor, "m d"],
    k1: Float[Tensor, "n d"],
    k2: Float[Tensor, "n d"],
    temperature: float = 0.2,
    anchors: slice = ALL,
) -> Float[Tensor, ""]:
    """2τ (L(q1, k2) + L(q2, k1)) with L(q, k) = E_i [−log( e^{q_i·k_i/τ} / Σ_j e^{q_i·k_j/τ} )].

    q_v are the predictions from view v; the keys k_v of view v come from the teacher and carry no gradient. The queries
    belong to the slice `anchors` of the keys' images: a process has its own queries and the keys of all processes.
    """
    check_views(q1, q2)
    check_views(k1, k2)
    check_temperature(temperature)
    q, k = Euclidean().embed(torch.stack([q1, q2])), Euclidean().embed(torch.stack([k2, k1]).detach())
    positive = (q * k[:, anchors]).sum(2) / temperature
    return 2 * temperature * ((q @ k.mT / temperature).logsumexp(2) - positive).mean(1).sum()
