"""Encoders: backbones, projection heads, and one pass for several views."""

from care.models.backbones import build_backbone
from care.models.deepset import DeepSet
from care.models.encoder import Encoder, Features
from care.models.heads import projection_head
from care.models.per_view import checkpoint_activations, forward_shuffled, forward_views, split_batchnorm
from care.models.stems import describe_stem, set_stem, stem_of, stem_of_weights

__all__ = [
    "DeepSet",
    "Encoder",
    "Features",
    "build_backbone",
    "checkpoint_activations",
    "describe_stem",
    "forward_shuffled",
    "forward_views",
    "projection_head",
    "set_stem",
    "split_batchnorm",
    "stem_of",
    "stem_of_weights",
]
