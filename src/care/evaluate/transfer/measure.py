"""Transfer of frozen features: logistic regression on all labels and on few labels, and few-shot tasks."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import policy_named
from care.augment.naming import Policy
from care.evaluate.embedder import device_of
from care.evaluate.features.tuned_logistic import PENALTIES
from care.evaluate.transfer.classifier import fit_classifier
from care.evaluate.transfer.downstream import Downstream, check_names, load_downstream
from care.evaluate.transfer.embedded import VALIDATION, Embedded, Model, embed_downstream
from care.evaluate.transfer.few_shot import QUERIES, SHOTS, TASKS, WAYS, few_shot, too_few_images
from care.evaluate.transfer.labels import accuracies, stratified
from care.evaluate.transfer.result import Transfer
from care.frozen import frozen
from care.progress import ProgressCallback, silent

SHARES = {"1 %": 0.01, "10 %": 0.1}
SEEDS = (0, 1, 2)

Part = tuple[dict[str, Any], dict[str, Tensor]]  # numbers, and the arrays behind them


def measure_transfer(
    model: Model,
    to: Sequence[str | Path | Downstream],
    policy: Policy | str = "simclr",
    *,
    tasks: int = TASKS,
    few_labels: bool = True,
    name: str = "model",
    seed: int = 0,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    progress: ProgressCallback = silent,
) -> Transfer:
    """How well the frozen features `model(images)` classify other data sets.

    `model` is any function of images [n, 3, size, size] in [0, 1] that returns features [n, d]; a module is put into
    evaluation mode meanwhile. The images are the clean views of `policy`. `tasks` is the number of few-shot tasks, 0
    for none; without `few_labels`, nothing is fitted to 1 % and 10 % of the labels. It runs on the model's device or on
    `device`. The same seed draws the same labels and tasks for every model.
    """
    downstreams = [data if isinstance(data, Downstream) else load_downstream(data) for data in to]
    check_names(downstreams)
    policy = policy_named(policy) if isinstance(policy, str) else policy
    where = torch.device(device) if device is not None else device_of(model, downstreams[0].train)
    record: dict[str, Any] = {}
    arrays: dict[str, Tensor] = {}
    for downstream in downstreams:
        stage = _stages(progress, f"{name} on {downstream.name}")
        with frozen(model):
            embedded = embed_downstream(model, downstream, policy, where, seed, batch_size, partial(stage, "features"))
        found, found_arrays = transfer_to(embedded, tasks, few_labels, seed, stage)
        record[downstream.name] = {**_counts(downstream), **found}
        arrays |= {f"{downstream.name}/{array}": tensor for array, tensor in found_arrays.items()}
    views = {"size": getattr(policy, "size", None), "center": getattr(policy, "center", None)}
    about = {"model": name, "dimension": embedded.features.shape[1], "views": views, "seed": seed, **_protocol(tasks)}
    return Transfer({"about": about, "data": record}, arrays)


def transfer_to(
    embedded: Embedded, tasks: int, few_labels: bool, seed: int, stage: Callable[[str, int, int], None]
) -> Part:
    """Everything that is measured on one data set."""
    parts = [_all_labels(embedded, partial(stage, "all labels"))]
    if few_labels:
        parts.append(_few_labels(embedded, seed, partial(stage, "few labels")))
    if tasks:
        parts.append(_few_shot(embedded, tasks, seed, stage))
    record = {key: value for found, _ in parts for key, value in found.items()}
    arrays = {key: value for _, found in parts for key, value in found.items()}
    return record, {"labels": embedded.test_labels, **arrays}


def _all_labels(embedded: Embedded, tick: Callable[[int, int], None]) -> Part:
    classifier = fit_classifier(embedded.features, embedded.labels, embedded.heldout, tick)
    correct = classifier.predict(embedded.test_features) == embedded.test_labels
    return {"all_labels": {**accuracies(correct, embedded.test_labels), **classifier.to_json()}}, {"all": correct}


def _few_labels(embedded: Embedded, seed: int, tick: Callable[[int, int], None]) -> Part:
    """Fit to random shares of the train labels, at least one per class; a fifth of them chooses the penalty."""
    features, labels = embedded.features[: embedded.train], embedded.labels[: embedded.train]
    record: dict[str, Any] = {}
    arrays: dict[str, Tensor] = {}
    for i, (name, share) in enumerate(SHARES.items()):
        found, correct = [], []
        for j, number in enumerate(SEEDS, start=1):
            rows = stratified(labels, share, seed, "labels", name, number)
            some, heldout = labels[rows], stratified(labels[rows], VALIDATION, seed, "held out", leave_one=True)
            classifier = fit_classifier(features[rows], some, heldout)
            correct.append(classifier.predict(embedded.test_features) == embedded.test_labels)
            found.append({**accuracies(correct[-1], embedded.test_labels), **classifier.to_json()})
            tick(len(SEEDS) * i + j, len(SHARES) * len(SEEDS))
        record[name] = {"images": int(rows.sum()), **_over_seeds(found)}
        arrays[name] = torch.stack(correct)
    return {"few_labels": record}, arrays


def _over_seeds(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The values of every seed, and the mean and the standard deviation of the accuracies."""
    values = {name: [result[name] for result in found] for name in found[0]}
    spread = {f"{name}_mean": fmean(values[name]) for name in ("top1", "mean_per_class")}
    spread |= {f"{name}_std": stdev(values[name]) for name in ("top1", "mean_per_class")}
    return {**values, **spread}


def _few_shot(embedded: Embedded, tasks: int, seed: int, stage: Callable[[str, int, int], None]) -> Part:
    """Few-shot tasks drawn from the test images, or a sentence if there are too few images."""
    record: dict[str, Any] = {}
    arrays: dict[str, Tensor] = {}
    for shots in SHOTS:
        if (why_not := too_few_images(embedded.test_labels, shots)) is not None:
            record[f"{shots}"] = {"left_out": why_not}
            continue
        tick = partial(stage, f"{shots}-shot tasks")
        found = few_shot(embedded.test_features, embedded.test_labels, shots, tasks, seed, tick)
        record[f"{shots}"] = {name: _over_tasks(accuracy) for name, accuracy in found.items()}
        arrays |= {f"{shots}-shot/{name}": accuracy for name, accuracy in found.items()}
    return {"few_shot": record}, arrays


def _over_tasks(accuracy: Float[Tensor, " tasks"]) -> dict[str, float]:
    """The mean over tasks, and half of its 95 % interval, 1.96 σ/√tasks."""
    deviation = accuracy.std(correction=0).item()
    return {"mean": accuracy.mean().item(), "interval": 1.96 * deviation / math.sqrt(len(accuracy))}


def _counts(downstream: Downstream) -> dict[str, Any]:
    validation = len(downstream.validation) if downstream.validation is not None else None
    counts = {"train_images": len(downstream.train), "test_images": len(downstream.test)}
    words = {"classes": len(downstream.train.classes), "customary": downstream.customary}
    return {**words, **counts, "validation_images": validation}


def _protocol(tasks: int) -> dict[str, Any]:
    few_shot = {"ways": WAYS, "shots": list(SHOTS), "queries": QUERIES, "tasks": tasks}
    return {"penalties": len(PENALTIES), "validation_share": VALIDATION, "label_seeds": list(SEEDS), **few_shot}


def _stages(progress: ProgressCallback, prefix: str) -> Callable[[str, int, int], None]:
    def stage(name: str, done: int, total: int) -> None:
        progress(f"{prefix}: {name}", done, total)

    return stage
