"""The families for fitting and measuring R(θ): the policy, each of its families, each color operation alone."""

from dataclasses import replace

from care.augment import COLOR_OPERATIONS, ImagePolicy
from care.augment.naming import Policy
from care.evaluate.effects.families import ALL, Family, color_families, families_of

POLICY_SHARE = 3  # times as many augmentations of the policy as of a family, since all coordinates vary in it


def steered_families(policy: Policy, augmentations: int) -> list[Family]:
    """The policy, and its families and color operations alone with probability 1.

    The policy gets `POLICY_SHARE` times as many augmentations as the others, unless only one coordinate varies in it; a
    family that consists of a single augmentation gets one.
    """
    everything, *single = measured_families(policy, augmentations)
    count = augmentations if _varies_in_one(policy) else POLICY_SHARE * augmentations
    return [Family(ALL, everything.policy, count), *single]


def measured_families(policy: Policy, augmentations: int) -> list[Family]:
    """The same families with the same number of augmentations each.

    A family that is the whole policy, such as the colors of `hue_only`, is not drawn a second time.
    """
    everything, *single = every_family(policy, augmentations)
    return [everything, *(family for family in single if family.policy != policy)]


def every_family(policy: Policy, augmentations: int) -> list[Family]:
    """The policy, its families, and each color operation alone, also where some of these are the same.

    Colors that are a single operation have its name: of `hue_only,crop_only` they are "hue".
    """
    drawn = _colors(policy)
    only = {"color": drawn[0]} if len(drawn) == 1 else {}
    families = families_of(policy, augmentations)
    families += color_families(policy, augmentations, "brightness", "contrast", "saturation")
    return [replace(family, name=only.get(family.name, family.name)) for family in families]


def _varies_in_one(policy: Policy) -> bool:
    """Whether a single color operation is all that the policy does."""
    return isinstance(policy, ImagePolicy) and policy.families() == ("color",) and len(_colors(policy)) == 1


def _colors(policy: Policy) -> list[str]:
    """The color operations that the policy draws."""
    if not isinstance(policy, ImagePolicy) or not policy.color:
        return []
    return [name for name in COLOR_OPERATIONS if getattr(policy, name) > 0]
