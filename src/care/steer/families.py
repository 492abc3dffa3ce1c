"""What R(θ) is fitted and measured on: the policy, each of its families, each color operation alone."""

from care.evaluate.effects.families import ALL, Family, color_families, families_of
from care.evaluate.observer import Policy

POLICY_SHARE = 3  # times as many augmentations of the policy as of a family: all coordinates vary in it


def steered_families(policy: Policy, augmentations: int) -> list[Family]:
    """The policy, its families, and each color operation alone, all for certain.

    A family that holds a single augmentation has one, the policy `POLICY_SHARE` times as many as the others.
    """
    everything, *single = families_of(policy, augmentations)
    return [Family(ALL, everything.policy, POLICY_SHARE * augmentations), *single, *_others(policy, augmentations)]


def measured_families(policy: Policy, augmentations: int) -> list[Family]:
    """The same families with equally many augmentations of each."""
    return families_of(policy, augmentations) + _others(policy, augmentations)


def _others(policy: Policy, augmentations: int) -> list[Family]:
    """The color operations beside the hue, each alone."""
    return color_families(policy, augmentations, "brightness", "contrast", "saturation")
