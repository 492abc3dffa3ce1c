"""State trees (nested dicts, lists, tensors, numbers) as flat named tensors and JSON, and back."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import Tensor

PLAIN = (bool, int, float, str, type(None))
KEYS = (bool, int, str)


def flatten_state(state: Any, prefix: str = "") -> tuple[dict[str, Tensor], Any]:
    """(tensors, rest): tensors by their paths in the tree (`prefix/state/0/exp_avg`), and the rest as JSON values.

    Accepts any nesting of dicts with int and str keys, lists and tuples, with tensors, numbers, bool, str and None as
    leaves, such as the state dicts of modules and optimizers, or the state of Python's and NumPy's random generators.
    In the rest, a container is `{kind: items}` and a tensor is `{"tensor": name}`. Anything else is a TypeError that
    names its path.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _flatten(state, prefix, tensors)


def unflatten_state(tensors: Mapping[str, Tensor], rest: Any) -> Any:
    """The inverse of `flatten_state`, except that parameters become tensors and ordered dicts become dicts.

    `tensors` may hold more than `rest` refers to. The tensors are not copied.
    """
    if not isinstance(rest, dict):
        return rest
    match list(rest.items()):
        case [("tensor", str(name))]:
            if name not in tensors:
                raise ValueError(f"the tensor {name} is missing")
            return tensors[name]
        case [("dict", list(items))]:
            return {key: unflatten_state(tensors, value) for key, value in items}
        case [("list", list(items))]:
            return [unflatten_state(tensors, value) for value in items]
        case [("tuple", list(items))]:
            return tuple(unflatten_state(tensors, value) for value in items)
    raise ValueError(f"expected the output of flatten_state, got a dict with the keys {', '.join(map(repr, rest))}")


def _flatten(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return {"tensor": _add(tensors, path, value)}
    # Exact types only: a subclass (a NumPy number, a named tuple, an enum) would come back as something else.
    if type(value) in PLAIN:
        return value
    if type(value) in (dict, OrderedDict):
        return {"dict": [[_key(key, path), _flatten(item, _join(path, key), tensors)] for key, item in value.items()]}
    if type(value) in (list, tuple):
        items = [_flatten(item, _join(path, i), tensors) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    raise TypeError(f"{path or 'the state'} is a {type(value).__name__}, which a checkpoint cannot hold")


def _add(tensors: dict[str, Tensor], name: str, value: Tensor) -> str:
    """Add a tensor and return its name, with a prime if {"a/b": …} and {"a": {"b": …}} would share a name."""
    while name in tensors:
        name += "'"
    tensors[name] = value.detach()
    return name


def _join(path: str, key: bool | int | str) -> str:
    return f"{path}/{key}" if path else str(key)


def _key(key: Any, path: str) -> Any:
    if type(key) not in KEYS:
        raise TypeError(f"{path or 'the state'} has the key {key!r}: a checkpoint holds int and str keys only")
    return key
