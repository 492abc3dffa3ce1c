"""Controls of matched dimension: the embedding projected on a few principal or random directions.

A rotation in fewer dimensions has fewer free parameters, which alone changes how much of an augmentation's effect it
explains. A part of 16 dimensions is therefore compared with 16 directions of another embedding.
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
    """The name of the embedding projected on `dimension` directions: `embedding-principal-16` …"""
    return f"{EMBEDDING}-{kind}-{dimension}"


def with_projections(
    embedder: Embedder, clean: Embeddings, dimensions: Sequence[int], seed: int
) -> tuple[Embedder, Embeddings]:
    """Add outputs: the embedding on its sphere, projected on each of `dimensions` smaller than its own."""
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
    """Random orthonormal directions, the same on every device."""
    normal = torch.randn(F.shape[1], k, generator=generator_for("cpu", seed, "projection", k), dtype=torch.float64)
    return torch.linalg.qr(normal).Q.to(F)
