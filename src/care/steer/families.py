"""What a steering is fitted and measured on: the policy, each of its families, each color operation alone."""

import dataclasses
from typing import Any

from care.augment import COLOR_OPERATIONS, ImagePolicy
from care.evaluate.effects.families import ALL, Family, families_of
from care.evaluate.observer import Policy

WHOLE = 3  # times as many augmentations of the whole policy as of a family: all coordinates vary in it


def steered_families(policy: Policy, augmentations: int) -> list[Family]:
    """The policy, its families, and of its colors each operation alone, all for certain.

    A family of one augmentation has one, the whole policy `WHOLE` times as many as the others.
    """
    whole, *apart = families_of(policy, augmentations)
    return [Family(ALL, whole.policy, WHOLE * augmentations), *apart, *_colors(policy, augmentations)]


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
