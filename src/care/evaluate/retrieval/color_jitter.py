"""Retrieval after color jitter: the nearest neighbors of images before and after their colors are jittered."""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, apply
from care.data import Samples, batches
from care.evaluate.embedder import Embedder, Embeddings
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.progress import ProgressCallback
from care.randomness import generator_for

NEIGHBORS, QUERIES, PICTURED = 5, 500, 8


def evaluate_retrieval(
    embedder: Embedder, clean: Embeddings, seed: int, progress: ProgressCallback
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The neighbors of some images among all others, before and after color jitter. Point clouds have no colors."""
    samples, policy = embedder.samples, embedder.policy
    if not isinstance(policy, ImagePolicy) or len(samples) <= NEIGHBORS:
        return {"retrieval": None}, {}
    count = min(QUERIES, len(samples))
    queries = torch.arange(count) * len(samples) // count  # spread over all classes, even if sorted by class
    queried, input_shape = samples.take(queries), samples.input_shape
    jitter = _color_jitter(policy).sample(count, input_shape, generator_for("cpu", seed, "retrieval"))  # type: ignore[arg-type]
    F_a = dataclasses.replace(embedder, samples=queried).augmented_each(jitter)
    hues = _hues(embedder, samples, policy.unchanged(len(samples), input_shape))  # type: ignore[arg-type]
    query_hues = _hues(embedder, queried, jitter)
    labels = samples.labels.to(embedder.device)
    known = labels if 0 <= labels.min() < labels.max() else None  # of one class, all neighbors are of that class
    found = {
        output: retrieval_measures(F, queries.to(F.device), F_a[output], hues, query_hues, known, NEIGHBORS)
        for output, F in clean.items()
    }
    progress("retrieval", 1, 1)
    arrays = {f"retrieval/{output}/{name}": v for output, r in found.items() for name, v in r.per_query.items()}
    shown = torch.arange(min(PICTURED, count)) * count // min(PICTURED, count)
    after = {output: r.after.cpu()[shown] for output, r in found.items()}
    arrays |= _pictures(samples, policy, queries[shown], jitter[shown], after)
    return {"retrieval": {output: r.to_json() for output, r in found.items()}}, arrays


def _color_jitter(policy: ImagePolicy) -> ImagePolicy:
    """The policy's color jitter with probability 1; SimCLR's for a policy that has none."""
    jitter = policy if policy.color > 0 else ImagePolicy(policy.size, center=policy.center)
    return jitter.only("color").certain()


def _hues(embedder: Embedder, samples: Samples, p: ImageParameters) -> Hues:
    """The mean hue of each image under its augmentation."""
    found, here = [], p.to(embedder.device)
    blocks = torch.arange(len(samples)).split(embedder.rows_at_once)
    for rows, images in zip(blocks, batches(samples, blocks, embedder.device), strict=True):
        found.append(mean_hue(apply(images, here[rows[0] : rows[-1] + 1])))
    return Hues(*(torch.cat(column) for column in zip(*found, strict=True)))


def _pictures(
    samples: Samples, policy: ImagePolicy, queries: Tensor, jitter: ImageParameters, after: dict[str, Tensor]
) -> dict[str, Tensor]:
    """A few queries, clean and jittered, and neighbors, as 8-bit views; which neighbors are of the query's class."""

    def view(rows: Tensor, p: ImageParameters | None = None) -> Tensor:
        images = samples.take(rows).inputs.cpu()
        p = p or policy.unchanged(len(rows), samples.input_shape)  # type: ignore[arg-type]
        return (255 * apply(images, p)).round().to(torch.uint8)

    pictures = {"pictures/queries": view(queries), "pictures/jittered": view(queries, jitter)}
    labels = samples.labels.cpu()
    for output, rows in after.items():
        pictures[f"pictures/{output}"] = view(rows.flatten()).unflatten(0, rows.shape)
        pictures[f"pictures/{output}/right"] = (labels[rows] == labels[queries][:, None]) & (labels[rows] >= 0)
    return pictures
