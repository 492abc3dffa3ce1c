"""LooC's loss: in a space sensitive to one augmentation, only the view that shares that augmentation is a positive."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_temperature, check_views
from care.losses.precision import full_precision


@full_precision
def leave_one_out(
    query: Float[Tensor, "n d"], keys: Float[Tensor, "views n d"], positive: int, temperature: float = 0.2
) -> Float[Tensor, ""]:
    """E_i [−log( e^{q_i·k_i⁺/τ} / Σ_{v,j} e^{q_i·k_j^v/τ} )], with k⁺ the keys of the view `positive`.

    The sum runs over all keys of all images. Keys of the same image in the other views are negatives, too.
    """
    check_views(query, *keys)
    check_temperature(temperature)
    q, k = Euclidean().embed(query), Euclidean().embed(keys)
    similarity = torch.einsum("id,vjd->ivj", q, k) / temperature
    return (similarity.flatten(1).logsumexp(1) - similarity[:, positive].diagonal()).mean()
