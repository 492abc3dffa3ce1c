"""How well the classes can be told from the features: nearest neighbors and linear probes."""

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

ProbeOn = Literal["cached", "augmented", "drifting"]


def classify(
    bank: Observer,
    observer: Observer,
    still: Embeddings,
    protocol: Protocol | None,
    probe_on: ProbeOn,
    module: nn.Module | None,
    logistic: float | None,
    seed: int,
    watch: Watch,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """kNN and probe accuracy on the observed images with `bank` to learn from; nothing where labels are missing.

    With `logistic`, a penalty, also that of the exact logistic regression: what a probe trained for ever would become.
    """
    labels, test_labels = bank.samples.labels.to(bank.device), observer.samples.labels.to(observer.device)
    if labels.min() < 0 or test_labels.min() < 0:
        return {"knn": None, "probe": None, "logistic": None}, {}
    features, test_features = features_of(bank.clean()), features_of(still)
    right = {f"knn{k}": knn_predict(features, labels, test_features, k) == test_labels for k in NEIGHBORS}
    knn = {name.removeprefix("knn"): hits.double().mean().item() for name, hits in right.items()}
    found: dict[str, Any] = {"knn": knn, "probe": None, "logistic": None}
    if logistic is not None:
        exact = logistic_regression(features, labels, logistic)
        right["logistic"] = exact.predict(test_features) == test_labels
        accuracy = right["logistic"].double().mean().item()
        found["logistic"] = {"penalty": logistic, "accuracy": accuracy, "converged": exact.converged}
    if protocol is not None:
        tick = partial(watch, "linear probe")
        if probe_on == "cached":
            probe = linear_probe(features, labels, test_features, test_labels, protocol, seed, tick)
        else:
            probe = augmented_probe(bank, observer, protocol, module if probe_on == "drifting" else None, seed, tick)
        found["probe"] = {"on": probe_on, **probe.to_json()}
        right |= {"probe": probe.correct[probe.chosen], "probe5": probe.correct5[probe.chosen]}
    return found, {f"right/{name}": hits for name, hits in right.items()}
