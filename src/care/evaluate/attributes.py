"""What the features still know of color, position and whatever else an augmentation or a generator changed."""

import math
from typing import Any

import torch
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, apply
from care.evaluate.families import Watch
from care.evaluate.hue import Hues, mean_hue
from care.evaluate.observer import Embeddings, Observer
from care.evaluate.retrieval import Retrieval, retrieval
from care.evaluate.sensitivity import factor_sensitivity, parameter_sensitivity
from care.evaluate.targets import factor_targets, parameter_targets
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
    asked = samples.take(queries)
    draws = generator_for("cpu", seed, "retrieval")
    jitter = _color_jitter(policy).sample(count, samples.source, draws)  # type: ignore[arg-type]
    F_a = Observer(observer.embed, asked, policy, "", observer.device, observer.rows_at_once).under_each(jitter)
    here, labels = queries.to(observer.device), samples.labels.to(observer.device)
    hues, query_hues = _hues(observer, None), _hues(observer, (asked.inputs, jitter))
    found = {
        output: retrieval(F, here, F_a[output], hues, query_hues, labels if labels.min() >= 0 else None, NEIGHBORS)
        for output, F in still.items()
    }
    watch("retrieval", 1, 1)
    pictures = _pictures(observer, queries[:PICTURED], asked.inputs[:PICTURED], jitter[:PICTURED], found)
    per_query = {f"retrieval/{o}/{name}": v for o, r in found.items() for name, v in r.per_query.items()}
    return {"retrieval": {output: r.to_json() for output, r in found.items()}}, {**per_query, **pictures}


def sense(observer: Observer, still: Embeddings, seed: int, watch: Watch) -> Found:
    """R² of the drawn parameters from pairs (h(x), h(a(x))), and of the factors of generated samples from h(x)."""
    samples = observer.samples
    drawn = observer.policy.sample(len(samples), samples.source, generator_for("cpu", seed, "sensitivity"))  # type: ignore[arg-type]
    moved, targets = observer.under_each(drawn), _here(parameter_targets(drawn), observer)
    parameters = {output: parameter_sensitivity(H, moved[output], targets) for output, H in still.items()}
    watch("sensitivity", 1, 1)
    found = {"sensitivity": {output: _finite(r2) for output, r2 in parameters.items()}, "factors": None}
    if samples.factors:
        known = {name: target._replace(values=target.values.to(observer.device), known=target.known.to(observer.device))
                 for name, target in factor_targets(samples).items()}  # fmt: skip
        found["factors"] = {output: _finite(factor_sensitivity(H, known)) for output, H in still.items()}
    return found, {}


def _color_jitter(policy: ImagePolicy) -> ImagePolicy:
    """The policy's color jitter for certain; the usual one for a policy that has none."""
    jitter = policy if policy.color > 0 else ImagePolicy(policy.size, center=policy.center)
    return jitter.only("color").certain()


def _hues(observer: Observer, jittered: tuple[Tensor, ImageParameters] | None) -> Hues:
    """The mean hue of every image, or of the jittered ones."""
    parts = []
    inputs = observer.samples.inputs if jittered is None else jittered[0]
    still = observer.policy.unchanged(1, observer.samples.source)  # type: ignore[arg-type]
    for start in range(0, len(inputs), observer.rows_at_once):
        block = inputs[start : start + observer.rows_at_once].to(observer.device)
        p = still.repeat(len(block)) if jittered is None else jittered[1][start : start + len(block)]
        parts.append(mean_hue(apply(block, p.to(observer.device))))
    return Hues(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _pictures(
    observer: Observer, queries: Tensor, asked: Tensor, jitter: ImageParameters, found: dict[str, Retrieval]
) -> dict[str, Tensor]:
    """The first few queries, as they are and jittered, and what was found for them, as 8-bit views."""
    policy, source, inputs = observer.policy, observer.samples.source, observer.samples.inputs

    def view(images: Tensor, p: ImageParameters) -> Tensor:
        return (255 * apply(images.cpu(), p.to("cpu"))).round().to(torch.uint8)

    def still(images: Tensor) -> Tensor:
        return view(images, policy.unchanged(len(images), source))  # type: ignore[arg-type]

    pictures = {"pictures/queries": still(asked), "pictures/jittered": view(asked, jitter)}
    labels = observer.samples.labels.cpu()
    for output, r in found.items():
        rows = r.after[: len(queries)].cpu()
        shown = still(inputs.index_select(0, rows.flatten().to(inputs.device)))
        pictures[f"pictures/{output}"] = shown.unflatten(0, rows.shape)
        pictures[f"pictures/{output}/right"] = labels[rows] == labels[queries][:, None]
    return pictures


def _here(targets: dict[str, Tensor], observer: Observer) -> dict[str, Tensor]:
    return {name: values.to(observer.device) for name, values in targets.items()}


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}
