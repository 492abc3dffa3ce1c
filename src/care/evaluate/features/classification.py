"""Classification from frozen features: nearest neighbors, linear probes, logistic regression."""

from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from care.evaluate.effects.families import Watch
from care.evaluate.features.augmented_probe import augmented_probe
from care.evaluate.features.knn import knn_predict
from care.evaluate.features.logistic import logistic_regression
from care.evaluate.features.probe import Protocol, linear_probe
from care.evaluate.observer import Embeddings, Observer, features_of

NEIGHBORS = (20, 200)

ProbeOn = Literal["clean", "augmented", "bn-train"]


def evaluate_classification(
    bank: Observer | None,
    observer: Observer,
    clean: Embeddings,
    protocol: Protocol | None,
    probe_on: ProbeOn,
    module: nn.Module | None,
    logistic: float | None,
    seed: int,
    watch: Watch,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The accuracy of kNN and of probes, trained on the images of `bank`, on those of `observer`; None without
    labels or without a bank.

    With `logistic`, a penalty, also that of the exact logistic regression: the limit of a probe trained for ever.
    """
    nothing: dict[str, Any] = {"knn": None, "probe": None, "logistic": None}
    if bank is None:
        return nothing, {}
    labels, test_labels = bank.samples.labels.to(bank.device), observer.samples.labels.to(observer.device)
    if labels.min() < 0 or test_labels.min() < 0:
        return nothing, {}
    features, test_features = features_of(bank.clean()), features_of(clean)
    correct = {f"knn{k}": knn_predict(features, labels, test_features, k) == test_labels for k in NEIGHBORS}
    knn = {name.removeprefix("knn"): hits.double().mean().item() for name, hits in correct.items()}
    found = {**nothing, "knn": knn}
    if logistic is not None:
        exact = logistic_regression(features, labels, logistic)
        correct["logistic"] = exact.predict(test_features) == test_labels
        accuracy = correct["logistic"].double().mean().item()
        found["logistic"] = {"penalty": logistic, "accuracy": accuracy, "converged": exact.converged}
    if protocol is not None:
        tick = partial(watch, "linear probe")
        if probe_on == "clean":
            probe = linear_probe(features, labels, test_features, test_labels, protocol, seed, tick)
        else:
            probe = augmented_probe(bank, observer, protocol, module if probe_on == "bn-train" else None, seed, tick)
        found["probe"] = {"on": probe_on, **probe.to_json()}
        correct |= {"probe": probe.correct[probe.chosen], "probe5": probe.correct5[probe.chosen]}
    return found, {f"correct/{name}": hits for name, hits in correct.items()}
