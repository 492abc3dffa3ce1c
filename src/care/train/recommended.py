"""What did best of what this package offers (RESULTS.md), for whoever names no method and no equivariance."""

from collections.abc import Mapping
from typing import Any

from care.augment import ImagePolicy, policy_named
from care.objective.build import ROTATIONS
from care.train.config import Config
from care.train.recipes import ANY_FOLDER, DEFAULTS, default_config, fitting_chunks, keeping

# `care reproduce recipe-sweep`: SimCLR with four views of half as many samples, and Muon at its usual rate.
FOR_IMAGES: dict[str, Any] = {
    "method": "simclr", "views": 4, "batch_size": 128, "optimizer": "muon", "weight_decay": 1e-6, "schedule": "cosine",
}  # fmt: skip
FOR_CLOUDS: dict[str, Any] = {"method": "simclr", "equivariance": "care"}
POLICIES = {"cifar10": "small_images", "cifar100": "small_images"}  # where the paper's is not the one that was tried
WARMUP, LONG = 2, 20  # epochs of warm-up, of a run of so many or more
# Views while training have three quarters of the side, a multiple of what a ResNet makes one place of the last map, of
# which three are left along a side.
SMALLER, PLACE, SMALLEST = 0.75, 8, 24

# What is kept: the features keep it because AugSelf predicts it from them, and a head on the middle of the backbone,
# which trains nothing else, makes rotations of it.
BESIDE: dict[str, Any] = {
    "equivariant_layer": "middle", "equivariant_depth": 3, "stop_gradient": True, "augself_weight": 0.05,
}  # fmt: skip
CHUNKS, FRACTION = 8, 0.5  # half of each chunk: of all of it, rotations were no better


def recommended_config(data: str, **chosen: Any) -> Config:
    """On images SimCLR with four views and Muon, also beside a split embedding; on point clouds SimCLR with CARE.

    A method, or an equivariance that is no split embedding, is trained as it is, at the paper's values.
    """
    named = "method" in chosen or chosen.get("equivariance", "split") != "split"
    small = DEFAULTS.get(data, {}).get("model") == "resnet50" and chosen.get("init") is None
    ours = {} if named else _for_clouds(chosen) if _is_clouds(data, chosen) else _for_images(data, chosen)
    return default_config(data, **{**({"model": "resnet18"} if small else {}), **ours, **chosen})


def _is_clouds(data: str, chosen: Mapping[str, Any]) -> bool:
    return chosen.get("policy", DEFAULTS.get(data, {}).get("policy")) == ROTATIONS


def _for_clouds(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {} if "equivariance" in chosen else FOR_CLOUDS


def _for_images(data: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    epochs = chosen.get("epochs", DEFAULTS.get(data, {}).get("epochs", Config.__dataclass_fields__["epochs"].default))
    warmup = {"warmup_epochs": WARMUP if type(epochs) is int and epochs >= LONG else 0}
    policy = {"policy": POLICIES[data]} if data in POLICIES else {}
    return {**FOR_IMAGES, **warmup, **policy, **_smaller_views(data, {**policy, **chosen})}


def _smaller_views(data: str, chosen: Mapping[str, Any]) -> dict[str, int]:
    """What crops show is then as large as in whole pictures, for about half of the work (Touvron et al., 2019).

    Of ResNets alone: others may take pictures of one size only, and weights to begin with have seen theirs.
    """
    there = {**DEFAULTS.get(data, ANY_FOLDER), "model": "resnet18", **chosen}
    if "resnet" not in str(there["model"]) or there.get("init") is not None:
        return {}
    policy = there["policy"] if isinstance(there["policy"], ImagePolicy) else policy_named(there["policy"])
    side = there.get("size") or policy.size
    smaller = PLACE * round(SMALLER * side / PLACE)
    return {"train_size": smaller} if policy.crop > 0 and SMALLEST <= smaller < side else {}


def kept_beside(what: str, there: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What `--keep` sets beside what was `chosen`, for a run that is `there` or would be without it.

    The embedding is the method's, to which coordinates are added; not once more, where a run that has them is resumed.
    """
    if (named := chosen.get("equivariance", "split")) != "split":
        raise ValueError(f"keep makes a split embedding, with AugSelf's loss: leave out the equivariance {named}")
    kept = keeping(what, chosen.get("embedding_dim", there.embedding_dim - there.equivariant_dim))
    beside = {} if there.equivariant_dim else _beside(there, chosen)
    return {**beside, **kept, **chosen, "embedding_dim": kept["embedding_dim"]}


def _beside(there: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """From the middle, unless it is to train the backbone; in fewer chunks where a batch is small."""
    sizes = {"batch_size": there.batch_size, "accumulate": there.accumulate}
    chunks = chosen.get("chunks", fitting_chunks(CHUNKS, sizes))
    if not chosen.get("stop_gradient", True):
        return {"chunks": chunks}
    halves = chosen.get("contrast") != "all" and there.batch_size // there.accumulate % (4 * max(1, chunks)) == 0
    return {"chunks": chunks, **BESIDE, **({"equivariance_fraction": FRACTION} if halves else {})}
