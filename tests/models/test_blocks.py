"""Which parts of a network are its blocks. That they are compiled once, and compute the same, is in test_per_view."""

from collections import Counter

import pytest
import timm
import torch
from torch import nn

from care.models import split_batchnorm
from care.models.blocks import _regions, _repeated, compile_blocks


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        ("resnet18", {"BasicBlock": 8, "BatchNorm2dPerView": 1}),
        ("resnet14t", {"Bottleneck": 4, "BatchNorm2dPerView": 3}),  # no two of one shape
        ("vit_tiny_patch16_224", {"Block": 12}),
        ("convnext_atto", {"ConvNeXtBlock": 12}),
    ],
)
def test_blocks_are_what_a_network_repeats(model, blocks):
    with torch.device("meta"):
        network = split_batchnorm(timm.create_model(model, num_classes=0))
    assert Counter(type(part).__name__ for part in _regions(network, _repeated(network))) == blocks


def test_a_network_that_repeats_nothing_is_left_alone():
    assert not compile_blocks(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
