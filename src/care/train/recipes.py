"""The paper's experiments, and a few others, by name. λ is in our units, in comments in the authors':
`care.losses.mean_weight` converts them."""

from typing import Any

from care.losses import mean_weight
from care.objective.registry import NONE, setting_names
from care.objective.settings import names_in
from care.suggestions import did_you_mean
from care.train.config import DEFAULT_CHOICE, Config
from care.train.default_values import OF_OPTIMIZER, published_head
from care.train.initial import with_model_of_init

# The settings of the paper's appendix and the authors' program on each data set. Settings of a method or of an
# equivariance apply only if it is chosen.
DEFAULTS: dict[str, dict[str, Any]] = {
    "cifar10": {"model": "resnet50", "policy": "cifar10", "chunks": 16},
    "cifar100": {"model": "resnet50", "policy": "cifar100", "chunks": 4},
    "stl10": {
        "split": "train+unlabeled", "model": "resnet50", "policy": "stl10", "chunks": 8, "optimizer": "sgd",
        "learning_rate": 0.06, "weight_decay": 5e-4, "sgd_momentum": 0.0, "schedule": "cosine", "warmup_epochs": 10,
    },
    "flowers102": {  # 20 images per class are held out; the split called train has 10 per class, too few to learn from
        "split": "train+val+test", "validation": 20, "model": "resnet18", "policy": "simclr", "chunks": 16, "size": 128,
    },
    "imagenet100": {
        "model": "resnet50", "policy": "imagenet100", "equivariance_policy": "imagenet100_equivariance", "chunks": 4,
        "measure_policy": "imagenet100_equivariance", "epochs": 200, "batch_size": 512, "optimizer": "sgd",
        "learning_rate": 0.8, "weight_decay": 1e-4, "schedule": "cosine", "head_width": 2048, "head_batchnorm": False,
    },
    "shapes": {"model": "test_resnet", "policy": "shapes", "chunks": 16, "epochs": 20},
    "chains": {
        "model": "deepset", "policy": "rotations", "chunks": 16, "care_weight": 30.0, "epochs": 40,
        "embedding_dim": 16, "head_width": 64,
    },
}  # fmt: skip

# Defaults for a folder of the user's own pictures; stores have 256 pixels by default.
OWN_PICTURES = {"model": "resnet18", "policy": "mocov2", "chunks": 16}

# On ImageNet-100 the queue is that of MoCo's own program. On small data it would hold all images, with outdated keys.
MOCO = {"imagenet100": {"temperature": 0.2, "queue": 65_536}}

# (λ in the authors' scaling, images per chunk) on top of SimCLR.
PAPER_WEIGHTS = {
    "cifar10": (0.01, 256 // 16),
    "cifar100": (0.001, 256 // 4),
    "stl10": (0.01, 256 // 8),
    "imagenet100": (0.005, 512 // 4),
}

# Common settings on small images, not the paper's: a learning rate of 0.06 for every 256 images.
SMALL_IMAGES: dict[str, Any] = {
    "model": "resnet18", "policy": "small_images", "epochs": 200, "batch_size": 512, "optimizer": "sgd",
    "learning_rate": 0.12, "weight_decay": 5e-4, "norm_bias_decay": False, "schedule": "cosine", "warmup_epochs": 10,
}  # fmt: skip

# What a split embedding can keep although the method's loss discards it, and the policy that trains this part.
KEPT = {"hue": "hue_only", "photometric": "color_only", "crop": "crop_only"}
EQUIVARIANT_DIM = 16


def default_config(data: str, **chosen: Any) -> Config:
    """The paper's values for a data set and the published head of the method, overridden by `chosen`."""
    usual = {**DEFAULTS.get(data, OWN_PICTURES), **(MOCO.get(data, {}) if chosen.get("method") == "mocov2" else {})}
    if chosen.get("init") is not None:
        usual.pop("model", None)  # the weights determine the model
    if "optimizer" in chosen and chosen["optimizer"] != usual.get("optimizer"):
        usual = {name: value for name, value in usual.items() if name not in OF_OPTIMIZER}
    if "chunks" in usual:
        usual["chunks"] = fitting_chunks(usual["chunks"], chosen)
    values = with_model_of_init({"data": data, **applicable(usual, chosen), **chosen})
    head = published_head(values.get("method", DEFAULT_CHOICE["method"]), values.get("model", ""))
    return Config.of(**{**values, **{name: value for name, value in head.items() if name not in chosen}})


def fitting_chunks(chunks: int, chosen: dict[str, Any]) -> int:
    """The default number of chunks or, for another batch, the largest number up to it with chunks of at least four
    images, or else two.

    If no number fits, `chunks` is returned unchanged, and a later check refuses it.
    """
    if "batch_size" not in chosen:
        return chunks
    batch = int(chosen["batch_size"]) // max(1, int(chosen.get("accumulate", 1)))
    possible = [c for least in (4, 2) for c in range(chunks, 0, -1) if batch % c == 0 and batch // c >= least]
    return possible[0] if possible else chunks


def applicable(values: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The `values` that apply: settings of every run, of the chosen method and of the chosen equivariance."""
    choices = {kind: chosen.get(kind, values.get(kind, default)) for kind, default in DEFAULT_CHOICE.items()}
    own = [name for kind, choice in choices.items() for name in setting_names(kind, choice)]
    return {name: value for name, value in values.items() if name in (*Config.__dataclass_fields__, *own)}


def recipes() -> dict[str, Config]:
    """Every training of the paper's experiments, and other methods at their common settings."""
    found = {}
    for data, (weight, chunk_size) in PAPER_WEIGHTS.items():
        care = {"equivariance": "care", "care_weight": mean_weight(weight, chunk_size)}
        for method in ("simclr", "mocov2"):
            found[f"{data}-{method}"] = default_config(data, method=method)
            found[f"{data}-care-{method}"] = default_config(data, method=method, **care)
    found["imagenet100-care-mocov2"] = default_config(  # λ 0.01 and 8 chunks there
        "imagenet100", method="mocov2", equivariance="care", chunks=8, care_weight=mean_weight(0.01, 512 // 8)
    )
    return found | _ablations() | _studies() | _small_images()


def _ablations() -> dict[str, Config]:
    """The six combinations of L_inv, L_equi and L_unif on CIFAR-10."""
    care = {"equivariance": "care", "care_weight": mean_weight(*PAPER_WEIGHTS["cifar10"])}
    settings: dict[str, dict[str, Any]] = {
        "invariance": {"method": "invariance"},
        "equivariance": {"method": NONE, "equivariance": "care", "care_weight": 1.0},
        "uniformity": {"method": "uniformity"},
        "uniformity-equivariance": {"method": "uniformity", **care},
        "infonce": {"method": "simclr"},
        "care": {"method": "simclr", **care},
    }
    return {f"cifar10-ablation-{name}": default_config("cifar10", **chosen) for name, chosen in settings.items()}


def _studies() -> dict[str, Config]:
    """The trainings behind figures: ResNet-18 (Wahba, γ_f), the circle, flowers, and point clouds."""
    care = {"equivariance": "care"}
    paper = {**care, "care_weight": mean_weight(*PAPER_WEIGHTS["cifar10"])}
    found = {}
    for name, theirs, ours in (("simclr", {}, {}), ("care-simclr", paper, care)):
        small = default_config("cifar10", model="resnet18", **theirs)
        found[f"cifar10-resnet18-{name}"] = small
        found[f"cifar10-circle-{name}"] = small.replace(embedding_dim=2)
        found[f"flowers102-{name}"] = default_config("flowers102", **theirs)
        found[f"shapes-{name}"] = default_config("shapes", **ours)
        found[f"chains-{name}"] = default_config("chains", **ours)
    return found


def _small_images() -> dict[str, Config]:
    """Methods at their common settings on CIFAR; the paper's settings were chosen for SimCLR."""
    own: dict[str, dict[str, Any]] = {"simclr": {}, "mocov2": {"symmetric": True}, "mocov3": {}, "byol": {}}
    return {
        f"{data}-sgd-{method}": default_config(data, **{**SMALL_IMAGES, "method": method, **theirs})
        for data in ("cifar10", "cifar100")
        for method, theirs in own.items()
    }


def keeping(what: str, embedding_dim: int) -> dict[str, Any]:
    """Settings that keep the hue, colors ("photometric") or the crop in an equivariant part.

    The invariant part has `embedding_dim` numbers. Several words, such as "hue,crop", share the equivariant part: each
    chunk draws an augmentation of one of them.
    """
    words = names_in(what, "keep", "hue,crop")
    for word in words:
        if word not in KEPT:
            *first, last = KEPT
            choices = f"choose {', '.join(first)} or {last}, or several, such as hue,crop"
            raise ValueError(f"cannot keep {word}: {choices}{did_you_mean(word, KEPT)}")
    policies = ",".join(KEPT[word] for word in words)
    return {**split_embedding(embedding_dim), "equivariance_policy": policies}


def split_embedding(embedding_dim: int, **chosen: Any) -> dict[str, Any]:
    """An equivariant part of the default size beside an invariant part of `embedding_dim` numbers."""
    return {"equivariance": "split", "embedding_dim": embedding_dim + EQUIVARIANT_DIM, **chosen}


def recipe(name: str) -> Config:
    """The experiment called `name`."""
    found = recipes()
    if name not in found:
        raise ValueError(f"unknown recipe {name!r}{did_you_mean(name, found) or ';'} `care recipes` lists them")
    return found[name]
