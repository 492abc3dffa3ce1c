"""Encoders: backbones, projection heads, and one pass for several views."""

from care.models.backbones import build_backbone, small_stem
from care.models.deepset import DeepSet
from care.models.encoder import Encoder
from care.models.heads import projection_head
from care.models.per_view import checkpoint_activations, forward_shuffled, forward_views, split_batchnorm

__all__ = [
    "DeepSet",
    "Encoder",
    "build_backbone",
    "checkpoint_activations",
    "forward_shuffled",
    "forward_views",
    "projection_head",
    "small_stem",
    "split_batchnorm",
]
