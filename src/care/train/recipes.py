"""The paper's experiments by name. λ is in our units, the authors' in the comments: see `care.losses.mean_weight`."""

import dataclasses
import difflib
from typing import Any

from care.losses import mean_weight
from care.train.config import Config

# What the paper's appendix and the authors' program use on each data set, without the equivariance loss.
DEFAULTS: dict[str, dict[str, Any]] = {
    "cifar10": {"model": "resnet50", "policy": "cifar10", "chunk_policy": "cifar10", "chunks": 16},
    "cifar100": {"model": "resnet50", "policy": "cifar100", "chunk_policy": "cifar100", "chunks": 4},
    "stl10": {
        "split": "train+unlabeled", "model": "resnet50", "policy": "stl10", "chunk_policy": "stl10", "chunks": 8,
        "optimizer": "sgd", "learning_rate": 0.06, "weight_decay": 5e-4, "sgd_momentum": 0.0, "schedule": "cosine",
        "warmup_epochs": 10,
    },
    "flowers102": {  # 20 of each class are held out: the split called train has 10 of each, too few to learn from
        "split": "train+val+test", "validation": 20, "model": "resnet18", "policy": "simclr", "chunk_policy": "simclr",
        "chunks": 16, "size": 128,
    },
    "imagenet100": {
        "model": "resnet50", "policy": "imagenet100", "chunk_policy": "imagenet100_equivariance", "chunks": 4,
        "epochs": 200, "batch_size": 512, "optimizer": "sgd", "learning_rate": 0.8, "weight_decay": 1e-4,
        "schedule": "cosine", "head_width": 2048, "head_batchnorm": False,
    },
    "shapes": {"model": "test_resnet", "policy": "shapes", "chunk_policy": "shapes", "chunks": 16, "epochs": 20},
    "chains": {
        "model": "deepset", "policy": "rotations", "chunk_policy": "rotations", "chunks": 16, "epochs": 40,
        "embedding": 16, "head_width": 64,
    },
}  # fmt: skip

# Pictures of one's own: stores have 256 pixels by default.
ANY_FOLDER = {"model": "resnet18", "policy": "mocov2", "chunk_policy": "mocov2", "chunks": 16}

# (λ in the authors' scaling, images per chunk) on top of SimCLR.
PAPER_WEIGHTS = {
    "cifar10": (0.01, 256 // 16),
    "cifar100": (0.001, 256 // 4),
    "stl10": (0.01, 256 // 8),
    "imagenet100": (0.005, 512 // 4),
}

# Not in the paper: what augmentations change can be kept in coordinates that the Siamese loss does not see. How many, λ
# and κ were chosen on CIFAR-10 (`care reproduce turned-sweep`). Few: in many dimensions all embeddings are nearly
# orthogonal, and L_equi small.
TURNED, TURNED_WEIGHT, KAPPA = 16, 10.0, 0.1
KEPT = {"hue": "hue_only", "colors": "color_only"}  # by which augmentations turn it


def default_config(data: str, **chosen: Any) -> Config:
    """The paper's values for a data set, with what was chosen in their place."""
    known = DEFAULTS.get(data, ANY_FOLDER)
    return Config(**{"data": data, **known, **(_moco(data) if chosen.get("method") == "mocov2" else {}), **chosen})


def _moco(data: str) -> dict[str, Any]:
    """On ImageNet-100 the queue is that of MoCo's own program; on small data it would hold all images, and old."""
    return {"temperature": 0.2, "queue": 1 << 16} if data == "imagenet100" else {"temperature": 0.1}


def recipes() -> dict[str, Config]:
    """Every experiment of the paper that trains something."""
    found = {}
    for data, (weight, chunk_size) in PAPER_WEIGHTS.items():
        care = {"equivariance": mean_weight(weight, chunk_size)}
        for method in ("simclr", "mocov2"):
            found[f"{data}-{method}"] = default_config(data, method=method)
            found[f"{data}-care-{method}"] = default_config(data, method=method, **care)
    found["imagenet100-care-mocov2"] = default_config(  # λ 0.01 and 8 chunks there
        "imagenet100", method="mocov2", chunks=8, equivariance=mean_weight(0.01, 512 // 8)
    )
    return found | _ablations() | _studies()


def _ablations() -> dict[str, Config]:
    """The six combinations of L_inv, L_equi and L_unif on CIFAR-10."""
    weight = mean_weight(*PAPER_WEIGHTS["cifar10"])
    settings: dict[str, dict[str, Any]] = {
        "invariance": {"method": "invariance"},
        "equivariance": {"method": "equivariance", "equivariance": 1.0},
        "uniformity": {"method": "uniformity"},
        "uniformity-equivariance": {"method": "uniformity", "equivariance": weight},
        "infonce": {"method": "simclr"},
        "care": {"method": "simclr", "equivariance": weight},
    }
    return {f"cifar10-ablation-{name}": default_config("cifar10", **chosen) for name, chosen in settings.items()}


def _studies() -> dict[str, Config]:
    """Figures on ResNet-18 (Wahba, γ_f), on the circle, on flowers, and on point clouds."""
    weight = mean_weight(*PAPER_WEIGHTS["cifar10"])
    found = {}
    for name, chosen in (("simclr", {}), ("care-simclr", {"equivariance": weight})):
        small = default_config("cifar10", model="resnet18", **chosen)
        found[f"cifar10-resnet18-{name}"] = small
        found[f"cifar10-circle-{name}"] = dataclasses.replace(small, embedding=2)
        found[f"flowers102-{name}"] = default_config("flowers102", **chosen)
        found[f"shapes-{name}"] = default_config("shapes", **({"equivariance": 3.0} if chosen else {}))
        found[f"chains-{name}"] = default_config("chains", **({"equivariance": 30.0} if chosen else {}))
    return found


def keeping(what: str, embedding: int) -> dict[str, Any]:
    """Settings that keep the hue, or of "colors" what changes most, beside an embedding of so many coordinates."""
    if what not in KEPT:
        raise ValueError(f"what can be kept is {' or '.join(KEPT)}, not {what}")
    return {**turned_apart(embedding), "chunk_policy": KEPT[what]}


def turned_apart(embedding: int, kappa: float = KAPPA) -> dict[str, Any]:
    """Coordinates of their own for what augmentations turn, beside as many for the contrast as there were."""
    return {"turned": TURNED, "embedding": embedding + TURNED, "equivariance": TURNED_WEIGHT, "turning": kappa}


def recipe(name: str) -> Config:
    """The experiment called `name`."""
    found = recipes()
    if name not in found:
        close = difflib.get_close_matches(name, found, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"no recipe is called {name!r}; {hint}`care recipes` lists them")
    return found[name]
