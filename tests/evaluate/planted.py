"""Encoders whose answers are known beforehand, and studies of them."""

import torch

from care.augment import ImagePolicy
from care.data import Samples, generate_shapes
from care.evaluate import EvaluationSettings, EvaluationSetup
from care.geometry import Euclidean

QUICK = EvaluationSettings(augmentations=5, probe_epochs=30, seeds=2, logistic=False)


def shapes(n, seed):
    made = generate_shapes(n, seed, size=8)
    return Samples(made.images, made.labels, made.classes, made.factors, "shapes")


COLORS = ImagePolicy(size=8).only("color")  # fewer families: where effects are not what is tested


def setup(embed, train=None, test=None, **changes):
    known = {
        "model": "planted",
        "embed": embed,
        "train": train or shapes(400, 0),
        "test": test or shapes(200, 1),
        "policy": ImagePolicy(size=8),
        "policy_name": "planted",
        "form": Euclidean(),
        "device": torch.device("cpu"),
    }
    return EvaluationSetup(**(known | changes))


def colors(images):
    """The mean color of a picture, and nothing else."""
    return {"features": images.mean((2, 3)) - 0.3}


def pixels(images):
    return {"embedding": images.flatten(1)[:, ::8] - 0.3, "backbone": images.flatten(1)[:, ::4] - 0.3}
