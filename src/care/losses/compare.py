"""Similarities for contrastive losses: every embedding against its positives and its negatives."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from care.geometry import Euclidean
from care.losses.checks import check_views

ALL = slice(None)


def compare(
    views: Sequence[Float[Tensor, "n d"]], scales: Sequence[float], tile: int | None = None, anchors: slice = ALL
) -> tuple[Float[Tensor, "v m v"], list[Float[Tensor, "v m v"]]]:
    """Return c_ab,ii and, for every scale, log(Σ_{j≠i} e^{scale·c_aa,ij} + Σ_{j≠i} e^{scale·c_ab,ij}), at [a, i, b].

    c_ab,ij is the cosine between the anchor, image i in view a, and image j in view b. The negatives of an anchor and
    its positive are all other images in both of their views. Entries with a = b are meaningless;
    `mean_over_positives` ignores them.

    Every product of two views is computed once, however many pairs use it. With `tile`, anchors are processed `tile` at
    a time and recomputed in the backward pass: memory grows with tile·vn instead of (vn)². Only the m images in the
    slice `anchors` are anchors: a process compares its own images with those of all processes.
    """
    check_views(*views)
    if tile is not None and tile < 1:
        raise ValueError(f"a tile needs at least one anchor, got {tile}")
    z = Euclidean().embed(torch.stack(list(views)))
    own = _rows(z, anchors)
    return torch.einsum("aid,bid->aib", own, own), [_negatives(z, scale, tile, anchors) for scale in scales]


def mean_over_positives(losses: Float[Tensor, "v m v"]) -> Float[Tensor, ""]:
    """The mean over all anchors and their positives, which are in the other views."""
    v, m, _ = losses.shape
    other = 1 - torch.eye(v, dtype=losses.dtype, device=losses.device)
    return (losses * other[:, None]).sum() / (v * m * (v - 1))


def _negatives(z: Float[Tensor, "v n d"], scale: float, tile: int | None, anchors: slice) -> Float[Tensor, "v m v"]:
    v, n, _ = z.shape
    own, images = scale * _rows(z, anchors).flatten(0, 1), torch.arange(n, device=z.device)[anchors].repeat(v)
    if tile is None:
        found = other_images(own, z, images)
    else:
        tiles = zip(own.split(tile), images.split(tile), strict=True)
        found = torch.cat([_recomputed(rows, z, image) for rows, image in tiles])
    in_each = found.unflatten(0, (v, -1))
    in_own = in_each.diagonal(dim1=0, dim2=2).mT
    return torch.logaddexp(in_own[:, :, None], in_each)


def other_images(
    anchors: Float[Tensor, "rows d"], z: Float[Tensor, "v n d"], image: Int[Tensor, " rows"]
) -> Float[Tensor, "rows v"]:
    """log Σ_j e^{anchor·z_bj} for every view b, over all images j except the anchor's own."""
    v, n, _ = z.shape
    itself = image[:, None] + n * torch.arange(v, device=z.device)
    similarity = (anchors @ z.flatten(0, 1).mT).scatter_(1, itself, -torch.inf)
    return similarity.unflatten(1, (v, n)).logsumexp(2)


def _rows(z: Float[Tensor, "v n d"], anchors: slice) -> Float[Tensor, "v m d"]:
    """z[:, anchors], or z itself if all images are anchors: indexing would sum gradients in another order."""
    return z if anchors == ALL else z[:, anchors]


def _recomputed(*args: Tensor) -> Tensor:
    found: Tensor = checkpoint(other_images, *args, use_reentrant=False, preserve_rng_state=False)
    return found
