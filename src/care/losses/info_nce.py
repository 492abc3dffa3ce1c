"""InfoNCE over a batch (the paper's equation 1), with every view as anchor."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_temperature
from care.losses.compare import ALL, compare, mean_over_positives
from care.losses.precision import full_precision


@full_precision
def info_nce(
    *views: Float[Tensor, "n d"], temperature: float = 0.5, tile: int | None = None, anchors: slice = ALL
) -> Float[Tensor, ""]:
    """L_InfoNCE = E_i [−log( e^{z_i·z_i⁺/τ} / (e^{z_i·z_i⁺/τ} + Σ_{2N−2 negatives} e^{z_i·z⁻/τ}) )].

    Row i of every view is image i. Every embedding is an anchor once: its positive is the other view of its image, and
    its negatives are the embeddings of all other images in both views. With more than two views, the loss is the mean
    over all pairs of views.

    With `tile`, anchors are processed `tile` at a time and recomputed in the backward pass: memory grows with tile·2N
    instead of (2N)²; values and gradients are the same. With `anchors`, only the images in this slice are anchors, but
    all images serve as negatives: this is one process's part of the loss over all processes.
    """
    check_temperature(temperature)
    cosine, (negatives,) = compare(views, [1 / temperature], tile, anchors)
    positive = cosine / temperature
    return mean_over_positives(torch.logaddexp(positive, negatives) - positive)
