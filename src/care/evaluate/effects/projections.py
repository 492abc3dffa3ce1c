"""Controls of matched dimension: the embedding in a few of its directions, principal or random ones.

A rotation of few dimensions has fewer free numbers, and leaves more or less of an augmentation's effect for that alone:
a part of 16 dimensions is compared with 16 directions of another embedding.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.embedder import EMBEDDING, EUCLIDEAN, Embedder, Embeddings
from care.geometry import leading_directions
from care.randomness import generator_for

KINDS = ("principal", "random")


def projected_output(kind: str, dimension: int) -> str:
    """The name of the embedding in so many of its directions: `embedding-principal-16` …"""
    return f"{EMBEDDING}-{kind}-{dimension}"


def with_projections(
    embedder: Embedder, clean: Embeddings, dimensions: Sequence[int], seed: int
) -> tuple[Embedder, Embeddings]:
    """The same with outputs of their own: the embedding on its sphere, in each number of directions below its own."""
    F = EUCLIDEAN.embed(clean[EMBEDDING]) if EMBEDDING in clean else None
    if F is None or not dimensions:
        return embedder, clean
    bases = {
        projected_output(kind, k): basis
        for k in dimensions
        if k < F.shape[1]
        for kind, basis in zip(KINDS, (leading_directions(F, k), _random_directions(F, k, seed)), strict=True)
    }

    def embed(inputs: Tensor) -> Mapping[str, Tensor]:
        found = embedder.embed(inputs)
        return {**found, **_projected(found[EMBEDDING], bases)}

    return dataclasses.replace(embedder, embed=embed), {**clean, **_projected(clean[EMBEDDING], bases)}


def _projected(z: Float[Tensor, "n d"], bases: Mapping[str, Float[Tensor, "d k"]]) -> Embeddings:
    return {name: EUCLIDEAN.embed(z.float()) @ basis.float() for name, basis in bases.items()}


def _random_directions(F: Float[Tensor, "n d"], k: int, seed: int) -> Float[Tensor, "d k"]:
    """Orthonormal, and the same wherever they are drawn."""
    normal = torch.randn(F.shape[1], k, generator=generator_for("cpu", seed, "projection", k), dtype=torch.float64)
    return torch.linalg.qr(normal).Q.to(F)
