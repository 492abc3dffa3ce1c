"""The recommended settings (docs/results/recipes.md), used when neither a method nor an equivariance is named."""

from collections.abc import Mapping
from typing import Any

from care.augment import ImagePolicy, policy_named
from care.augment.naming import POINT_POLICY
from care.train.config import Config
from care.train.recipes import DEFAULTS, OWN_PICTURES, default_config, fitting_chunks, keeping

# The best of `care reproduce recipe-sweep`: SimCLR with four views of half as many samples, and Muon at its default
# learning rate.
FOR_IMAGES: dict[str, Any] = {
    "method": "simclr", "views": 4, "batch_size": 128, "optimizer": "muon", "weight_decay": 1e-6, "schedule": "cosine",
}  # fmt: skip
FOR_CLOUDS: dict[str, Any] = {"method": "simclr", "equivariance": "care"}
POLICIES = {"cifar10": "small_images", "cifar100": "small_images"}  # the sweep's policies, where not the paper's
WARMUP, LONG = 2, 20  # epochs of warm-up, for runs of at least LONG epochs
# Training views have about three quarters of the side, rounded to a multiple of 8, the side in pixels of a position in
# a ResNet's last feature map. At least three positions per side must remain.
SMALLER, PLACE, SMALLEST = 0.75, 8, 24

# Settings of `--keep`: AugSelf makes the features keep the parameters, and a separate head on the middle of the
# backbone, whose losses train nothing else, turns them into rotations.
KEEP_SETTINGS: dict[str, Any] = {
    "equivariant_layer": "middle", "equivariant_depth": 3, "stop_gradient": True, "augself_weight": 0.05,
}  # fmt: skip
CHUNKS, FRACTION = 8, 0.5  # half of each chunk: with whole chunks, rotations were no better


def recommended_config(data: str, **chosen: Any) -> Config:
    """On images SimCLR with four views and Muon, also with a split embedding; on point clouds SimCLR with CARE.

    If a method, or an equivariance other than a split embedding, is named, the paper's values are used instead.
    """
    named = "method" in chosen or chosen.get("equivariance", "split") != "split"
    small = DEFAULTS.get(data, {}).get("model") == "resnet50" and chosen.get("init") is None
    ours = {} if named else _for_clouds(chosen) if _is_clouds(data, chosen) else _for_images(data, chosen)
    return default_config(data, **{**({"model": "resnet18"} if small else {}), **ours, **chosen})


def _is_clouds(data: str, chosen: Mapping[str, Any]) -> bool:
    return chosen.get("policy", DEFAULTS.get(data, {}).get("policy")) == POINT_POLICY


def _for_clouds(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {} if "equivariance" in chosen else FOR_CLOUDS


def _for_images(data: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    epochs = chosen.get("epochs", DEFAULTS.get(data, {}).get("epochs", Config.__dataclass_fields__["epochs"].default))
    warmup = {"warmup_epochs": WARMUP if type(epochs) is int and epochs >= LONG else 0}
    policy = {"policy": POLICIES[data]} if data in POLICIES else {}
    return {**FOR_IMAGES, **warmup, **policy, **_smaller_views(data, {**policy, **chosen})}


def _smaller_views(data: str, chosen: Mapping[str, Any]) -> dict[str, int]:
    """Smaller training views: objects in crops are then as large as in whole pictures (Touvron et al., 2019).

    They take about half of the work. For ResNets trained from random weights only: other models may accept one size
    only, and initial weights were trained at their own size.
    """
    settings = {**DEFAULTS.get(data, OWN_PICTURES), "model": "resnet18", **chosen}
    if "resnet" not in str(settings["model"]) or settings.get("init") is not None:
        return {}
    policy = settings["policy"] if isinstance(settings["policy"], ImagePolicy) else policy_named(settings["policy"])
    side = settings.get("size") or policy.size
    smaller = PLACE * round(SMALLER * side / PLACE)
    return {"train_size": smaller} if policy.crop > 0 and SMALLEST <= smaller < side else {}


def keep_settings(what: str, base: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The `chosen` settings with those of `--keep`; `base` is the configuration without it, or of a resumed run.

    The equivariant part is added to the dimensions of the method's embedding, unless the resumed run has it already.
    """
    if (named := chosen.get("equivariance", "split")) != "split":
        raise ValueError(f"keep sets the equivariance to a split embedding: leave out the equivariance {named}")
    _check_own_views(base, chosen)
    kept = keeping(what, chosen.get("embedding_dim", base.embedding_dim - base.equivariant_dim))
    part = {} if base.equivariant_dim else _equivariant_part(base, chosen)
    return {**part, **kept, **chosen, "embedding_dim": kept["embedding_dim"]}


def _check_own_views(base: Config, chosen: Mapping[str, Any]) -> None:
    """ValueError if the equivariant part is to share views with the method: it has augmentations of its own."""
    resumed = getattr(base.equivariance.settings, "equivariance_views", "own") if base.equivariant_dim else "own"
    views = chosen.get("equivariance_views", resumed)
    if views in ("shared", "mixed"):
        raise ValueError(f"keep draws views of its own: leave out equivariance_views {views}, or choose own")


def _equivariant_part(base: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the equivariant part, with fewer chunks for small batches.

    It is fed from the middle of the backbone, unless its losses are to train the backbone.
    """
    sizes = {"batch_size": base.batch_size, "accumulate": base.accumulate}
    chunks = chosen.get("chunks", fitting_chunks(CHUNKS, sizes))
    if not chosen.get("stop_gradient", True):
        return {"chunks": chunks}
    halves = chosen.get("contrast") != "all" and base.batch_size // base.accumulate % (4 * max(1, chunks)) == 0
    return {"chunks": chunks, **KEEP_SETTINGS, **({"equivariance_fraction": FRACTION} if halves else {})}
