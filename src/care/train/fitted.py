"""Default settings that follow from the samples: views no larger than the pictures, and samples to measure on."""

from collections.abc import Mapping
from typing import Any

from care.augment import ImagePolicy, policy_named
from care.data import load
from care.data.catalogue import ANY_FOLDER, DATA_SETS, Published
from care.data.heldout import default_validation
from care.data.picture_side import picture_side
from care.data.registry import known_splits
from care.objective import policy_for
from care.train.config import Config
from care.train.initial import size_of_init
from care.train.recipes import DEFAULTS, OWN_PICTURES
from care.train.recommended import recommended_config

SMALLEST_VIEW = 8  # pixels
# Up to this side, pictures get the augmentations of CIFAR: a blur would leave little of them, and objects fill them.
SMALL, SMALL_POLICY = 64, "small_images"


def fitted_config(data: str, **chosen: Any) -> Config:
    """The recommended configuration, with defaults that follow from the samples, which must be there."""
    config = recommended_config(data, **chosen)  # its errors come before pictures are searched for
    usual = {**_held_out(config, chosen), **_views(config, chosen)}
    return recommended_config(data, **{**usual, **chosen}) if usual else config


def _held_out(config: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Hold out a tenth of the samples if the data has no held-out split and their number was not chosen."""
    if "validation" in chosen or {"test", "val"} & set(known_splits(config.data)):
        return {}
    return {"validation": default_validation(load(config.data, config.split))}


def _views(config: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Views no larger than the pictures; and for small pictures without a policy of their own, `SMALL_POLICY`.

    A chosen size remains. Initial weights have seen one size: a run's own, or that of the policy if it is not known.
    """
    known, policy = DATA_SETS.get(config.data, ANY_FOLDER), policy_for(config.policy, config.size)
    sized = not isinstance(known, Published) or known.pixels is None  # pictures and policy have one size
    if sized or not isinstance(policy, ImagePolicy) or _is_size_chosen(chosen):
        return {}
    seen = None if chosen.get("init") is None else size_of_init(str(chosen["init"])) or policy.size
    samples = load(config.data, config.split)
    squares = chosen.get("pixels") or policy.size
    side = seen or min(policy.size, max(SMALLEST_VIEW, min(squares, picture_side(samples))))
    if side == policy.size:
        return {}
    small = side <= SMALL and config.data not in DEFAULTS
    return {
        "size": side,
        **({"policy": SMALL_POLICY} if small else {}),
        **({"pixels": side} if samples.streamed and not seen else {}),  # no enlarging before a crop
    }


def fitted_policy(name: str | None, side: int) -> ImagePolicy:
    """The policy for a user's pictures of this side: the named one, or else the default; views are no larger."""
    usual = policy_named(name or str(OWN_PICTURES["policy"]))
    if _is_size_chosen({"policy": name}):
        return usual
    policy = policy_named(SMALL_POLICY) if name is None and side <= SMALL else usual
    return policy.resized(min(usual.size, side))


def _is_size_chosen(chosen: Mapping[str, Any]) -> bool:
    policy = chosen.get("policy")
    return chosen.get("size") is not None or isinstance(policy, ImagePolicy) or "size=" in str(policy)
