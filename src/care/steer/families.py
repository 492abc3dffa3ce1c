"""What R(θ) is fitted and measured on: the policy, each of its families, each color operation alone."""

import dataclasses
from typing import Any

from care.augment import COLOR_OPERATIONS, ImagePolicy
from care.evaluate.effects.families import ALL, Family, families_of
from care.evaluate.observer import Policy

POLICY_SHARE = 3  # times as many augmentations of the policy as of a family: all coordinates vary in it


def steered_families(policy: Policy, augmentations: int) -> list[Family]:
    """The policy, its families, and each color operation alone, all for certain.

    A family that holds a single augmentation has one, the policy `POLICY_SHARE` times as many as the others.
    """
    everything, *single = families_of(policy, augmentations)
    return [Family(ALL, everything.policy, POLICY_SHARE * augmentations), *single, *_colors(policy, augmentations)]


def measured_families(policy: Policy, augmentations: int) -> list[Family]:
    """The same families with equally many augmentations of each."""
    return families_of(policy, augmentations) + _colors(policy, augmentations)


def _colors(policy: Policy, augmentations: int) -> list[Family]:
    """The one-parameter families: brightness, contrast, saturation, hue."""
    if not isinstance(policy, ImagePolicy) or not policy.color:
        return []
    colors = policy.only("color").certain()
    families = []
    for name in (name for name in COLOR_OPERATIONS if getattr(policy, name) > 0):
        off: dict[str, Any] = {other: 0.0 for other in COLOR_OPERATIONS if other != name}
        families.append(Family(name, dataclasses.replace(colors, **off), augmentations))
    return families
