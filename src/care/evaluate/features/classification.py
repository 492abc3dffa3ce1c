"""Classification from frozen features: logistic regression, linear probes, nearest neighbors."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from care.augment import ImagePolicy
from care.evaluate.embedder import Embedder, Embeddings, features_of
from care.evaluate.features.augmented_probe import augmented_probe
from care.evaluate.features.knn import NEIGHBORS, TEMPERATURE, knn_predict, neighbors_within
from care.evaluate.features.probe import ProbeResult, Protocol, linear_probe
from care.evaluate.features.tuned_logistic import tuned_logistic
from care.evaluate.features.whitening import whitening
from care.progress import ProgressCallback

WHITENED = "whitened"  # the name of whitened features, beside those of outputs
ProbeOn = Literal["clean", "crops", "augmented", "bn-train"]


@dataclass(frozen=True)
class Classifiers:
    """Which classifiers are fitted: the tuned logistic regression, probes of a protocol, kNN with each of `neighbors`.

    Probes are trained on the images `probe_on`; "bn-train" sets the BatchNorm of `module` to training mode.
    """

    logistic: bool = True
    protocol: Protocol | None = None
    probe_on: ProbeOn = "clean"
    module: nn.Module | None = None
    neighbors: tuple[int, ...] = NEIGHBORS
    temperature: float = TEMPERATURE
    seed: int = 0


def evaluate_classification(
    train: Embedder | None, embedder: Embedder, clean: Embeddings, classifiers: Classifiers, progress: ProgressCallback
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Fit classifiers to the images of `train`; score them on those of `embedder`, whose embeddings `clean` are given.

    Accuracies are None without labels, without `train`, or if it has images of one class only, which every classifier
    would find. Images without a label (−1) are left out, and so are `neighbors` that exceed the number of labeled
    images. Classifiers use the features of the backbone; kNN accuracies are computed of these whitened, and of all
    other outputs, too.
    """
    nothing: dict[str, Any] = dict.fromkeys(("logistic", "probe", "knn", "knn_whitened", "knn_outputs"))
    if train is None:
        return nothing, {}
    clean = _labeled_rows(clean, embedder)
    train, embedder = _labeled(train), _labeled(embedder)
    labels, test_labels = train.samples.labels.to(train.device), embedder.samples.labels.to(embedder.device)
    if len(labels.unique()) < 2 or not len(test_labels):
        return nothing, {}
    classifiers = dataclasses.replace(classifiers, neighbors=neighbors_within(classifiers.neighbors, len(labels)))
    fitted = train.clean()
    rows = features_of(fitted), labels, features_of(clean), test_labels
    neighbors, correct = _neighbors_of_outputs(fitted, labels, clean, test_labels, classifiers)
    found = nothing | neighbors
    if classifiers.logistic and _can_be_tuned(labels):
        found["logistic"], correct["logistic"] = _logistic(*rows, progress)
    if classifiers.protocol is not None:
        probe = _probe(train, embedder, rows, classifiers, partial(progress, "linear probe"))
        found["probe"] = {"on": classifiers.probe_on, **probe.to_json()}
        correct |= {"probe": probe.correct[probe.chosen], "probe5": probe.correct5[probe.chosen]}
    return found, {f"correct/{name}": hits for name, hits in correct.items()}


def _labeled(embedder: Embedder) -> Embedder:
    """A copy with only the samples that have a label."""
    known = embedder.samples.labels >= 0
    if known.all():
        return embedder
    return dataclasses.replace(embedder, samples=embedder.samples.subset(known.nonzero().flatten()))


def _labeled_rows(embeddings: Embeddings, embedder: Embedder) -> dict[str, Float[Tensor, "k _"]]:
    """The rows of the samples that have a label."""
    known = embedder.samples.labels >= 0
    return {name: z[known.to(z.device)] for name, z in embeddings.items()}


def _neighbors_of_outputs(
    fitted: Mapping[str, Tensor],
    labels: Int[Tensor, " n"],
    clean: Mapping[str, Tensor],
    test_labels: Int[Tensor, " m"],
    classifiers: Classifiers,
) -> tuple[dict[str, Any], dict[str, Bool[Tensor, " m"]]]:
    """(The accuracies of kNN as the record has them, which test rows it gets right) of all outputs."""
    features, test_features = features_of(fitted), features_of(clean)
    whiten = whitening(features)

    def hits(X: Float[Tensor, "n d"], X_test: Float[Tensor, "m d"]) -> dict[str, Bool[Tensor, " m"]]:
        return _nearest_neighbors(X, labels, X_test, test_labels, classifiers)

    of_features, of_whitened = hits(features, test_features), hits(whiten(features), whiten(test_features))
    others = {z: hits(fitted[z], clean[z]) for z in clean if clean[z] is not test_features}
    record = {
        "knn": _accuracies(of_features),
        "knn_whitened": _accuracies(of_whitened),
        "knn_outputs": {output: _accuracies(correct) for output, correct in others.items()},
    }
    named = {WHITENED: of_whitened, **others}
    return record, of_features | {f"{knn}/{name}": x for name, by in named.items() for knn, x in by.items()}


def _nearest_neighbors(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    test_features: Float[Tensor, "m d"],
    test_labels: Int[Tensor, " m"],
    classifiers: Classifiers,
) -> dict[str, Bool[Tensor, " m"]]:
    τ = classifiers.temperature
    return {f"knn{k}": knn_predict(features, labels, test_features, k, τ) == test_labels for k in classifiers.neighbors}


def _accuracies(correct: dict[str, Bool[Tensor, " m"]]) -> dict[str, float]:
    """The accuracy of kNN, by k."""
    return {name.removeprefix("knn"): hits.double().mean().item() for name, hits in correct.items()}


def _can_be_tuned(labels: Int[Tensor, " n"]) -> bool:
    """Whether there are two classes, and one of them has a second row for choosing the penalty."""
    counts = labels.bincount()
    return int((counts > 0).sum()) > 1 and int(counts.max()) > 1


def _logistic(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    test_features: Float[Tensor, "m d"],
    test_labels: Int[Tensor, " m"],
    progress: ProgressCallback,
) -> tuple[dict[str, Any], Bool[Tensor, " m"]]:
    """The tuned logistic regression as the record has it, and which test rows it gets right."""
    tuned = tuned_logistic(features, labels, tick=partial(progress, "logistic regression"))
    correct = tuned.predict(test_features) == test_labels
    record = {
        "penalty": tuned.penalty,
        "accuracy": correct.double().mean().item(),
        "mean_per_class": mean_per_class(correct, test_labels),
        "validation_accuracy": max(tuned.validation),
        "path": [list(step) for step in zip(tuned.penalties, tuned.validation, strict=True)],
        "converged": tuned.classifier.converged,
    }
    return record, correct


def mean_per_class(correct: Bool[Tensor, " m"], labels: Int[Tensor, " m"]) -> float:
    """The mean over classes of the share of their rows that are correct; classes without rows do not count."""
    counts = labels.bincount()
    right = labels.bincount(weights=correct.double())
    return (right / counts)[counts > 0].mean().item()


def _probe(
    train: Embedder,
    embedder: Embedder,
    rows: tuple[Tensor, Tensor, Tensor, Tensor],
    classifiers: Classifiers,
    tick: partial[None],
) -> ProbeResult:
    protocol, seed = classifiers.protocol, classifiers.seed
    assert protocol is not None
    if classifiers.probe_on == "clean":
        return linear_probe(*rows, protocol, seed, tick)
    if classifiers.probe_on == "crops":
        train = dataclasses.replace(train, policy=ImagePolicy(size=train.policy.size).only("crop", "flip"))  # type: ignore[union-attr]
    module = classifiers.module if classifiers.probe_on == "bn-train" else None
    return augmented_probe(train, embedder, protocol, module, seed, tick)
