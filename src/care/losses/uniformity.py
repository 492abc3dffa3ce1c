"""L_unif, L_orbit and L_slice: spread all embeddings over the sphere, those of one image, or those under one
augmentation."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_temperature, check_views
from care.losses.equivariance import in_chunks
from care.losses.invariance import Variant
from care.losses.precision import full_precision


@full_precision
def uniformity(
    z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], variant: Variant = "paper", temperature: float = 0.5
) -> Float[Tensor, ""]:
    """How close together the embeddings of different images are, over both views.

    Expectations run over the 2N·(2N−2) ordered pairs of embeddings (z, z⁻) that belong to different images.

    "paper":      L_unif = log E exp(z·z⁻)
    "authors":    E_z log Σ_{z⁻} exp(z·z⁻/τ), as in the authors' program
    "wang-isola": log E exp(−2‖z − z⁻‖²)

    `temperature` is τ; only "authors" uses it.
    """
    check_views(z1, z2)
    check_temperature(temperature)
    similarity = _similarity_to_negatives(z1, z2)
    mean = math.log(len(similarity) * (len(similarity) - 2))
    match variant:
        case "paper":
            return similarity.logsumexp((0, 1)) - mean
        case "authors":
            return (similarity / temperature).logsumexp(1).mean()
        case "wang-isola":
            return (4 * (similarity - 1)).logsumexp((0, 1)) - mean  # −2‖z − z⁻‖² = 4 (z·z⁻ − 1) on the sphere
    raise ValueError(f'variant must be "paper", "authors" or "wang-isola", got {variant!r}')


@full_precision
def orbit_uniformity(z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], chunks: int = 1) -> Float[Tensor, ""]:
    """How close together the embeddings of *one* image are under different augmentations, over all images.

    L_orbit = E_{a,a'} log E_x exp(f(a(x))·f(a'(x))), with E_x over the images of a chunk: 1 = an invariant encoder; the
    further augmentations move the embeddings, the lower the loss. It keeps L_equi from its trivial solution, an
    invariant encoder.
    """
    z = _in_chunks(z1, z2, chunks)
    similarity = (z[0] * z[1]).sum(-1)
    return similarity.logsumexp(1).mean() - math.log(z.shape[2])


@full_precision
def slice_uniformity(z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], chunks: int = 1) -> Float[Tensor, ""]:
    """How close together the embeddings of different images are under *one* augmentation, over all augmentations.

    L_slice = E_a log E_{x≠x⁻} exp(f(a(x))·f(a(x⁻))), with x and x⁻ from one chunk of one view. Embeddings that depend
    on the augmentation and not on the image can make L_unif small, but not L_slice.
    """
    z = _in_chunks(z1, z2, chunks)
    m = z.shape[2]
    similarity = (z @ z.mT).masked_fill(torch.eye(m, dtype=torch.bool, device=z.device), -torch.inf)
    return similarity.logsumexp((2, 3)).mean() - math.log(m * (m - 1))


def _in_chunks(z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], chunks: int) -> Float[Tensor, "2 {chunks} m d"]:
    check_views(z1, z2)
    return in_chunks(Euclidean().embed(torch.stack([z1, z2])), chunks)


def _similarity_to_negatives(z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Float[Tensor, "2*n 2*n"]:
    """z·z' between all embeddings of both views, −∞ where both belong to one image."""
    z = Euclidean().embed(torch.cat([z1, z2]))
    image = torch.arange(len(z1), device=z.device).repeat(2)
    return (z @ z.mT).masked_fill(image[:, None] == image[None, :], -torch.inf)
