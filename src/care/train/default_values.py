"""Default values that depend on other settings: the head of the method, and the learning rate and the momentum of the
optimizer."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from care.objective import ObjectiveSettings
from care.objective.registry import find

# Networks for tests, demonstrations and point clouds. The published heads of methods would be larger than they are.
SMALL_NETWORKS = ("test_resnet", "small_resnet", "deepset")
HEAD = ("embedding_dim", "head_width", "head_depth", "head_batchnorm", "head_last_batchnorm")
# The learning rate of an optimizer, and whether it scales with the batch (a rate for every 256 samples). Adam's is
# torch's default and the paper's on CIFAR, Muon's the better of two in `care reproduce recipe-sweep`. SGD's is that of
# E-SSL (Dangovski et al., 2022) for SimCLR on CIFAR-10, LARS's that of SimCLR (Chen et al., 2020), with the same trust
# of 0.001.
RATES = {
    "adam": (1e-3, False), "adamw": (1e-3, False), "muon": (3e-3, False), "sgd": (0.06, True), "lars": (0.3, True),
}  # fmt: skip
MOMENTA = {"muon": 0.95}  # its authors' momentum; all others use the default of the setting, 0.9
OF_OPTIMIZER = ("learning_rate", "sgd_momentum")  # settings that do not carry over to another optimizer
_FIELDS = {field.name: field.default for field in dataclasses.fields(ObjectiveSettings)}


def published_head(method: str, model: str) -> dict[str, Any]:
    """The published head of a method, if it differs from SimCLR's and `model` is not a small network."""
    found = find("method", method)
    return {} if found is None or model in SMALL_NETWORKS else dict(found.head)


def head_of_new_method(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The `values` that a new method changes: settings of the head that had the previous method's defaults."""
    method, model = values["method"], values["model"]
    if changes.get("method", method) == method:
        return {}
    before = {name: _FIELDS[name] for name in HEAD} | published_head(method, model)
    after = {name: _FIELDS[name] for name in HEAD} | published_head(changes["method"], changes.get("model", model))
    return {name: value for name, value in after.items() if name not in HEAD or values[name] == before[name]}


def default_learning_rate(optimizer: str, batch_size: int) -> float:
    """The default learning rate: γ, or γ · batch / 256 for optimizers whose rate scales with the batch."""
    rate, grows = RATES[optimizer]
    return rate * batch_size / 256 if grows else rate


def with_optimizer_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration, with the optimizer's default learning rate and momentum unless chosen.

    An invalid optimizer or batch is passed through: a later check refuses it.
    """
    optimizer, batch = values.get("optimizer", "adam"), values.get("batch_size", 256)
    if optimizer not in tuple(RATES) or type(batch) is not int:
        return dict(values)
    momentum = {"sgd_momentum": MOMENTA[optimizer]} if optimizer in MOMENTA else {}
    return {"learning_rate": default_learning_rate(optimizer, batch), **momentum, **values}
