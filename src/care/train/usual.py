"""What a configuration has where nothing was chosen, and what follows when it is changed: the head of the method."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from care.objective import ObjectiveSettings
from care.objective.registry import find

# Networks for tests, demonstrations and point clouds, which are smaller than the heads that methods are published with.
SMALL_NETWORKS = ("test_resnet", "small_resnet", "deepset")
HEAD = ("embedding_dim", "head_width", "head_depth", "head_batchnorm", "head_last_batchnorm")
_FIELDS = {field.name: field.default for field in dataclasses.fields(ObjectiveSettings)}


def usual_head(method: str, model: str) -> dict[str, Any]:
    """The head that a method is published with, where it is not that of SimCLR and `model` is no small network."""
    found = find("method", method)
    return {} if found is None or model in SMALL_NETWORKS else dict(found.head)


def following(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What of the `values` of a configuration changes with its method: those of the head that were as usual."""
    method, model = values["method"], values["model"]
    if changes.get("method", method) == method:
        return {}
    before = {name: _FIELDS[name] for name in HEAD} | usual_head(method, model)
    after = {name: _FIELDS[name] for name in HEAD} | usual_head(changes["method"], changes.get("model", model))
    return {name: value for name, value in after.items() if name not in HEAD or values[name] == before[name]}
