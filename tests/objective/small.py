"""Small objectives: every registered method and equivariance, and how they are built for a test."""

import torch

from care.objective import build_encoder, build_objective
from care.objective.registry import REGISTERED
from care.train import Config
from care.train.recipes import applicable

BATCH = 8
SIZES = {
    "model": "test_resnet", "embedding_dim": 8, "head_width": 16, "batch_size": BATCH, "chunks": 4, "queue": 16,
    "equivariant_dim": 3, "steering_rank": 6, "prediction_width": 16, "augmentation_width": 8,
    "bins": 4, "stl_dim": 6, "condition_width": 8, "transformation_dim": 4,
}  # fmt: skip
SMALLER = {"model": "small_resnet", "size": 8}  # where it does not matter: half of the time
METHODS, EQUIVARIANCES = list(REGISTERED["method"]), list(REGISTERED["equivariance"])


# Every method alone, and with every equivariance; CARE without a method.
ALL = {
    **{name: {"method": name} for name in METHODS},
    **{f"{name} + {other}": {"method": name, "equivariance": other} for name in METHODS for other in EQUIVARIANCES},
    "care alone": {"method": "none", "equivariance": "care"},
}
# Of these, all with CARE, and with the others one method of each kind: negatives of the batch, a queue, a teacher.
KINDS = ("simclr", "mocov2", "byol")
COMBINATIONS = {
    name: chosen
    for name, chosen in ALL.items()
    if chosen.get("equivariance", "care") == "care" or chosen["method"] in KINDS
}


def narrow(equivariance):
    """Widths for which a run takes seconds."""
    widths = ("prediction_width", "augmentation_width", "stl_dim", "transformation_dim")
    return applicable({name: SIZES[name] for name in widths}, {"equivariance": equivariance})


# What each axis has, once.
REGISTERED_ONCE = {
    **{name: {"method": name, "equivariance": "care"} for name in METHODS},
    **{name: {"equivariance": name, **narrow(name)} for name in EQUIVARIANCES if name != "care"},
    "split at a layer": {"model": "test_resnet", "equivariance": "split", "equivariant_layer": "layer2"},
    "split, its head alone": {
        "model": "test_resnet",
        "equivariance": "split",
        "equivariant_layer": "layer2",
        "stop_gradient": True,
    },
    "split, with features that keep": {"equivariance": "split", "augself_weight": 0.05, "prediction_width": 16},
    "split, with views that are predicted": {"equivariance": "split", "equimod_weight": 0.3},
    "equimod, from views": {"equivariance": "equimod", "equimod_from": "views"},
    "split, with features that tell turns": {"equivariance": "split", "essl_weight": 0.4},
}


def small(**chosen):
    return Config.of(**{"data": "shapes", **applicable(SIZES, chosen), **chosen})


def build(processes=1, **chosen):
    torch.manual_seed(0)
    config = small(**chosen)
    encoder = build_encoder(config, (32, 32)).double()
    return build_objective(config, encoder, config.batch_size, processes).double()


def drawn(objective, images, batch=BATCH, rows=slice(None), seed=0):
    """What a step draws of these images."""
    return objective.plan.draw(images, batch, rows, torch.Generator().manual_seed(seed))


def noise(n=BATCH, seed=1):
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
