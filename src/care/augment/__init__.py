"""Augmentations as values: draw them, keep them, apply them, apply them again.

    policy = care.augment.simclr(size=32)
    p = policy.sample(n, input_shape=(32, 32), generator=generator)   # one augmentation per image
    views = care.augment.apply(images, p)

For one augmentation per chunk, as the equivariance loss needs, draw one per chunk and repeat it:

    shared = policy.sample(chunks, input_shape=(32, 32), generator=generator).repeat(n // chunks)
"""

from care.augment.apply import apply, compose
from care.augment.changes import CHANGES, changed, read_changes
from care.augment.collate import AugmentedBatch, ChunkCollate
from care.augment.coordinates import coordinate_names, coordinates, relative
from care.augment.fused import can_fuse, fused_augment
from care.augment.images import COLOR_OPERATIONS, ImageParameters, identity
from care.augment.mixed import MixedPolicy, mixture
from care.augment.naming import policy_named, policy_text
from care.augment.points import PointParameters, PointPolicy
from care.augment.policy import ImagePolicy
from care.augment.presets import (
    PRESETS,
    byol,
    byol_second,
    cifar10,
    cifar100,
    color_kept,
    color_only,
    crop_only,
    hue_only,
    imagenet100,
    imagenet100_equivariance,
    mocov2,
    shapes,
    simclr,
    stl10,
)
from care.augment.values import Parameters

__all__ = [
    "CHANGES",
    "COLOR_OPERATIONS",
    "PRESETS",
    "AugmentedBatch",
    "ChunkCollate",
    "ImageParameters",
    "ImagePolicy",
    "MixedPolicy",
    "Parameters",
    "PointParameters",
    "PointPolicy",
    "apply",
    "byol",
    "byol_second",
    "can_fuse",
    "changed",
    "cifar10",
    "cifar100",
    "color_kept",
    "color_only",
    "compose",
    "coordinate_names",
    "coordinates",
    "crop_only",
    "fused_augment",
    "hue_only",
    "identity",
    "imagenet100",
    "imagenet100_equivariance",
    "mixture",
    "mocov2",
    "policy_named",
    "policy_text",
    "read_changes",
    "relative",
    "shapes",
    "simclr",
    "stl10",
]
