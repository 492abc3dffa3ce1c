"""InfoNCE over a batch of pairs (the paper's equation 1), both views as anchors."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from care.geometry import Euclidean
from care.losses.checks import check_temperature, check_views
from care.losses.precision import full_precision


@full_precision
def info_nce(
    z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], temperature: float = 0.5, tile: int | None = None
) -> Float[Tensor, ""]:
    """L_InfoNCE = E_i [−log( e^{z_i·z_i⁺/τ} / (e^{z_i·z_i⁺/τ} + Σ_{2N−2 negatives} e^{z_i·z⁻/τ}) )].

    z1[i] and z2[i] are the two views of image i. Each of the 2N embeddings is an anchor once, its other view is the
    positive and the embeddings of all other images, in both views, are the negatives.

    With `tile`, anchors are handled that many at a time and recomputed in the backward pass: memory grows with
    tile·2N instead of (2N)², values and gradients are the same.
    """
    check_views(z1, z2)
    check_temperature(temperature)
    z = Euclidean().embed(torch.cat([z1, z2]))
    anchors = torch.arange(len(z), device=z.device)
    positives = anchors.roll(len(z1))
    if tile is None:
        return anchor_losses(z, z, anchors, positives, temperature).mean()
    if tile < 1:
        raise ValueError(f"a tile needs at least one anchor, got {tile}")
    tiles = zip(z.split(tile), anchors.split(tile), positives.split(tile), strict=True)
    sums = [_recomputed(rows, z, itself, positive, temperature).sum() for rows, itself, positive in tiles]
    return torch.stack(sums).sum() / len(z)


def anchor_losses(
    anchors: Float[Tensor, "rows d"],
    candidates: Float[Tensor, "all d"],
    itself: Int[Tensor, " rows"],
    positive: Int[Tensor, " rows"],
    temperature: float,
) -> Float[Tensor, " rows"]:
    """−log softmax of each anchor's positive among all candidates but itself; both indices point into `candidates`."""
    similarity = anchors @ candidates.mT / temperature
    similarity = similarity.scatter(1, itself[:, None], -torch.inf)
    return similarity.logsumexp(1) - similarity.gather(1, positive[:, None]).squeeze(1)


def _recomputed(*args: Tensor | float) -> Tensor:
    losses: Tensor = checkpoint(anchor_losses, *args, use_reentrant=False, preserve_rng_state=False)
    return losses


class InfoNCE(nn.Module):
    """`info_nce` with its settings."""

    def __init__(self, temperature: float = 0.5, tile: int | None = None) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature, self.tile = temperature, tile

    def forward(self, z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """`info_nce(z1, z2)`."""
        return info_nce(z1, z2, self.temperature, self.tile)
