"""What the features still know of color, position and whatever else an augmentation or a generator changed."""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, apply
from care.data import Samples
from care.evaluate.decoding.sensitivity import factor_sensitivity, parameter_sensitivity
from care.evaluate.decoding.targets import factor_targets, parameter_targets
from care.evaluate.effects.families import Watch
from care.evaluate.observer import Embeddings, Observer
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.randomness import generator_for

NEIGHBORS, QUERIES, PICTURED = 5, 500, 8

Found = tuple[dict[str, Any], dict[str, Tensor]]


def retrieve(observer: Observer, still: Embeddings, seed: int, watch: Watch) -> Found:
    """The neighbors of some images among the others, before and after their color is jittered; of images only."""
    samples, policy = observer.samples, observer.policy
    if not isinstance(policy, ImagePolicy) or len(samples) <= NEIGHBORS:
        return {"retrieval": None}, {}
    count = min(QUERIES, len(samples))
    queries = torch.arange(count) * len(samples) // count  # spread over all classes, should they be in order
    asked, source = samples.take(queries), samples.source
    jitter = _color_jitter(policy).sample(count, source, generator_for("cpu", seed, "retrieval"))  # type: ignore[arg-type]
    F_a = dataclasses.replace(observer, samples=asked).augmented_each(jitter)
    hues = _hues(observer, samples.inputs, policy.unchanged(len(samples), source))  # type: ignore[arg-type]
    query_hues = _hues(observer, asked.inputs, jitter)
    labels = samples.labels.to(observer.device)
    known = labels if labels.min() >= 0 else None
    found = {
        output: retrieval_measures(F, queries.to(F.device), F_a[output], hues, query_hues, known, NEIGHBORS)
        for output, F in still.items()
    }
    watch("retrieval", 1, 1)
    arrays = {f"retrieval/{output}/{name}": v for output, r in found.items() for name, v in r.per_query.items()}
    shown = torch.arange(min(PICTURED, count)) * count // min(PICTURED, count)
    after = {output: r.after.cpu()[shown] for output, r in found.items()}
    arrays |= _pictures(samples, policy, queries[shown], jitter[shown], after)
    return {"retrieval": {output: r.to_json() for output, r in found.items()}}, arrays


def sense(observer: Observer, still: Embeddings, seed: int, watch: Watch) -> Found:
    """R² of the drawn parameters from pairs (h(x), h(a(x))), and of the factors of generated samples from h(x)."""
    samples = observer.samples
    drawn = observer.policy.sample(len(samples), samples.source, generator_for("cpu", seed, "sensitivity"))  # type: ignore[arg-type]
    moved, targets = observer.augmented_each(drawn), parameter_targets(drawn.to(observer.device))
    parameters = {output: parameter_sensitivity(H, moved[output], targets) for output, H in still.items()}
    watch("sensitivity", 1, 1)
    found: dict[str, Any] = {"sensitivity": {output: _finite(r2) for output, r2 in parameters.items()}, "factors": None}
    if samples.factors:
        known = factor_targets(samples.to(observer.device))
        found["factors"] = {output: _finite(factor_sensitivity(H, known)) for output, H in still.items()}
    return found, {}


def _color_jitter(policy: ImagePolicy) -> ImagePolicy:
    """The policy's color jitter for certain; the usual one for a policy that has none."""
    jitter = policy if policy.color > 0 else ImagePolicy(policy.size, center=policy.center)
    return jitter.only("color").certain()


def _hues(observer: Observer, inputs: Tensor, p: ImageParameters) -> Hues:
    """The mean hue of each image under its augmentation."""
    found, here, size = [], p.to(observer.device), observer.rows_at_once
    for start in range(0, len(inputs), size):
        block = inputs[start : start + size].to(observer.device)
        found.append(mean_hue(apply(block, here[start : start + size])))
    return Hues(*(torch.cat(column) for column in zip(*found, strict=True)))


def _pictures(
    samples: Samples, policy: ImagePolicy, queries: Tensor, jitter: ImageParameters, after: dict[str, Tensor]
) -> dict[str, Tensor]:
    """A few queries, as they are and jittered, what was found for them, as 8-bit views, and what is of their class."""

    def view(rows: Tensor, p: ImageParameters | None = None) -> Tensor:
        images = samples.take(rows).inputs.cpu()
        p = p or policy.unchanged(len(rows), samples.source)  # type: ignore[arg-type]
        return (255 * apply(images, p)).round().to(torch.uint8)

    pictures = {"pictures/queries": view(queries), "pictures/jittered": view(queries, jitter)}
    labels = samples.labels.cpu()
    for output, rows in after.items():
        pictures[f"pictures/{output}"] = view(rows.flatten()).unflatten(0, rows.shape)
        pictures[f"pictures/{output}/right"] = labels[rows] == labels[queries][:, None]
    return pictures


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}
