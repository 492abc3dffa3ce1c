"""What did best of what this package offers (RESULTS.md), for whoever names no method and no equivariance."""

from collections.abc import Mapping
from typing import Any

from care.objective.build import ROTATIONS
from care.train.config import Config
from care.train.recipes import DEFAULTS, default_config, keeping

# `care reproduce recipe-sweep`: SimCLR with four views of half as many samples, and Muon at its usual rate.
FOR_IMAGES: dict[str, Any] = {
    "method": "simclr", "views": 4, "batch_size": 128, "optimizer": "muon", "weight_decay": 1e-6, "schedule": "cosine",
}  # fmt: skip
FOR_CLOUDS: dict[str, Any] = {"method": "simclr", "equivariance": "care"}
POLICIES = {"cifar10": "small_images", "cifar100": "small_images"}  # where the paper's is not the one that was tried
WARMUP, LONG = 2, 20  # epochs of warm-up, of a run of so many or more

# What is kept, from the middle of the backbone and with a small κ: the features that classes are read from are left to
# the method. The head of the equivariant part has no other gradient, and learns as fast as with a large κ by optimizers
# whose steps do not depend on the size of the gradient.
BESIDE: dict[str, Any] = {"equivariant_layer": "middle", "equivariant_weight": 3e-3}
SCALE_FREE = ("adam", "adamw", "muon")
FRACTION, KEPT_OF_A_CHUNK, MOST_CHUNKS = 0.25, 4, 8


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
    return {**FOR_IMAGES, **warmup, **policy}


def kept_beside(what: str, there: Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What `--keep` sets beside what was `chosen`, for a run that is `there` or would be without it.

    The embedding is the method's, to which coordinates are added; not once more, where a run that has them is resumed.
    """
    kept = keeping(what, chosen.get("embedding_dim", there.embedding_dim - there.equivariant_dim))
    beside = {} if there.equivariant_dim else _beside(there, chosen.get("chunks"), chosen.get("stop_gradient", False))
    return {**beside, **kept, **chosen, "embedding_dim": kept["embedding_dim"]}


def _beside(there: Config, chunks: int | None, stop_gradient: bool) -> dict[str, Any]:
    """From the middle where it can be, and of a quarter of the samples where that leaves four images of a chunk.

    With `stop_gradient` it can always be from there, without a κ, and all samples cost little.
    """
    fraction = 1.0 if stop_gradient else FRACTION
    batch, least = there.batch_size // there.accumulate, round(KEPT_OF_A_CHUNK / fraction)
    possible = [c for c in (chunks or MOST_CHUNKS, 4, 2, 1) if batch % (least * c) == 0 and chunks in (None, c)]
    fewer = {"chunks": possible[0], "equivariance_fraction": fraction} if possible else {}
    if stop_gradient:
        return {"equivariant_layer": BESIDE["equivariant_layer"], **fewer}
    middle = there.optimizer in SCALE_FREE and not there.activation_checkpointing
    return {**(BESIDE if middle else {}), **fewer}
