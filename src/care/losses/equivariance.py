"""The orthogonal equivariance loss L_equi, and its form for other groups."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import BilinearForm, Euclidean
from care.losses.checks import check_views
from care.losses.precision import full_precision

EUCLIDEAN = Euclidean()


@full_precision
def equivariance(
    z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], chunks: int = 1, form: BilinearForm = EUCLIDEAN
) -> Float[Tensor, ""]:
    """L_equi = E_a E_{x≠x'} [B(f(a x), f(a x')) − B(f(a' x), f(a' x'))]².

    The rows form `chunks` groups of n/chunks consecutive images. All images of chunk c share the augmentation a_c in z1
    and a'_c in z2, so inner products are compared only within chunks. The loss is the mean over all pairs of different
    images in a chunk: 0 = the inner products of both views agree.
    """
    check_views(z1, z2)
    z = in_chunks(form.embed(torch.stack([z1, z2])), chunks)
    gram = form.gram(z)
    change = (gram[0] - gram[1]).square()
    m = z.shape[2]
    on_diagonal = change.diagonal(dim1=-2, dim2=-1).sum()
    return (change.sum() - on_diagonal) / (chunks * m * (m - 1))


def mean_weight(authors_weight: float, chunk_size: int) -> float:
    """The λ for this library that is equivalent to the λ of the authors' program: λ · 2(m − 1) for chunks of m images.

    Their equivariance loss sums over the m − 1 partners of an image and counts each pair twice; ours is a mean.
    """
    return authors_weight * 2 * (chunk_size - 1)


def in_chunks(z: Float[Tensor, "views n d"], chunks: int) -> Float[Tensor, "views {chunks} m d"]:
    """The rows of every view, split into `chunks` groups of at least 2 consecutive rows."""
    n = z.shape[1]
    if chunks < 1 or n % chunks:
        divisors = [c for c in range(1, n // 2 + 1) if n % c == 0]
        raise ValueError(f"{chunks} chunks do not divide a batch of {n}; these do: {', '.join(map(str, divisors))}")
    if n // chunks < 2:
        raise ValueError(f"{chunks} chunks of a batch of {n} hold one image each: a chunk needs at least 2")
    return z.unflatten(1, (chunks, -1))
