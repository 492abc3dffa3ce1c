"""Policies as text: a preset by name, possibly with some fields replaced, or a mixture of several."""

import dataclasses
import functools
import math
import re
from typing import Any

from care.augment.mixed import MixedPolicy, mixture
from care.augment.points import PointPolicy
from care.augment.policy import ImagePolicy
from care.augment.presets import PRESETS
from care.suggestions import did_you_mean

Policy = ImagePolicy | PointPolicy
POINT_POLICY = "rotations"  # the name of `PointPolicy`
LARGEST = 4096  # pixels per side
FIELDS = {field.name: field.default for field in dataclasses.fields(ImagePolicy)}
KINDS = {int: "a whole number", float: "a number", tuple: "a range such as {low:g}-{high:g}"}


@functools.cache  # policies are immutable, and every check of a configuration needs some
def policy_named(text: str) -> ImagePolicy:
    """The preset of that name at its default size; `simclr:gray=0.1,scale=0.2-1` replaces some of its fields.

    `hue_only,crop_only` is a mixture: each augmentation is drawn from one of the two.
    """
    policies = [_changed(_preset(name), changes) for name, changes in _parts(text)]
    return policies[0] if len(policies) == 1 else mixture(policies)


def policy_text(policy: ImagePolicy) -> str:
    """The text that `policy_named` reads as this policy: the most similar preset, and all fields that differ."""
    parts = policy.parts if isinstance(policy, MixedPolicy) else (policy,)
    known = all(type(part) is ImagePolicy for part in parts)
    text = ",".join(min((_written(name, part) for name in PRESETS), key=_changes) for part in parts) if known else ""
    if not text or policy_named(text) != policy:
        raise ValueError(f"{policy} cannot be written as text: train with an ImagePolicy or a mixture of several")
    return text


def _parts(text: str) -> list[tuple[str, list[str]]]:
    """The names in the text, each with the `field=value`s that follow it."""
    found: list[tuple[str, list[str]]] = []
    for word in text.split(","):
        name, colon, change = (part.strip() for part in word.partition(":"))
        if "=" in name and not found:
            raise ValueError(f"{name} does not say which policy to change: write it like simclr:{name}")
        if "=" in name:
            found[-1][1].append(name)
        else:
            found.append((name, [change] if colon else []))
    return found


def _preset(name: str) -> ImagePolicy:
    if name == POINT_POLICY:
        raise ValueError(f"the policy {name} is for point clouds: for images choose one of {', '.join(PRESETS)}")
    if name not in PRESETS:
        known = (*PRESETS, POINT_POLICY)
        close = [preset for preset in known if name and preset.startswith(name)]
        hint = f"; did you mean {' or '.join(close)}?" if close else did_you_mean(name, known)
        raise ValueError(f"unknown policy {name!r}: choose one of {', '.join(PRESETS)}{hint}")
    return PRESETS[name]()


def _changed(policy: ImagePolicy, changes: list[str]) -> ImagePolicy:
    """The policy with these `field=value`s. A new size also scales the blur's kernel, unless that is given, too."""
    values: dict[str, Any] = {}
    for change in changes:
        name, _, value = (part.strip() for part in change.partition("="))
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS) or f"; its fields are {', '.join(FIELDS)}"
            raise ValueError(f"a policy has no field {name!r}{hint}")
        values[name] = _value(name, value)
    if values.get("size", 0) > LARGEST:
        raise ValueError(f"views have at most {LARGEST} pixels a side, got {values['size']}")
    resized = policy.resized(values.pop("size")) if "size" in values else policy
    return dataclasses.replace(resized, **values)


def _value(name: str, text: str) -> Any:
    """A whole number, a number, or a range `low-high`, depending on the field."""
    usual = 1 if name == "size" else FIELDS[name]
    ends = re.split(r"(?<![eE])-", text) if isinstance(usual, tuple) else [text]
    try:
        numbers = tuple(int(end) if isinstance(usual, int) else float(end) for end in ends)
    except ValueError:
        numbers = ()
    wanted = len(usual) if isinstance(usual, tuple) else 1
    if len(numbers) != wanted or not all(map(math.isfinite, numbers)):
        low, high = usual if isinstance(usual, tuple) else (0, 0)
        raise ValueError(f"{name} of a policy is {KINDS[type(usual)].format(low=low, high=high)}, got {text!r}")
    return numbers if isinstance(usual, tuple) else numbers[0]


def _written(name: str, policy: ImagePolicy) -> str:
    """The policy as changes of the preset called `name`."""
    preset = PRESETS[name]()
    changes = [] if preset.size == policy.size else [f"size={policy.size}"]
    start = preset.resized(policy.size) if changes else preset
    for field in FIELDS:
        value = getattr(policy, field)
        if value != getattr(start, field):
            numbers = value if isinstance(value, tuple) else (value,)
            changes.append(f"{field}={'-'.join(map(repr, numbers))}")
    return f"{name}:{','.join(changes)}" if changes else name


def _changes(text: str) -> int:
    return text.count("=")
