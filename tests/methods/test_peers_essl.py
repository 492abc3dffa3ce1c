"""E-SSL: its formula, its minimum, and the turned crops."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from care.losses import quarter_turns
from care.methods.essl import turned_size
from losses import literal
from methods.peers import CLOUDS, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small

SIZES = ("resnet18", "test_resnet")  # of 512 and of 96 features


@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_it_is_its_formula(fraction):
    objective = build(equivariance="essl", essl_weight=0.3, turned_fraction=fraction)
    views, turned = drawn(objective, noise()), int(fraction * BATCH)
    crops, encoder = views[2].inputs[:turned], copy.deepcopy(objective.encoder)
    turns = [torch.stack([crop.rot90(k, (1, 2)) for crop in crops]) for k in range(4)]
    logits = objective.equivariance.head(encoder.features(torch.cat(turns))).unflatten(0, (4, turned))
    term = objective(views)["essl"]
    assert term.value.item() == pytest.approx(literal.quarter_turns(logits), rel=1e-9)
    assert term.weight == 0.3


def test_crops_of_half_the_size_are_turned_as_pillow_does():
    objective = build(equivariance="essl")
    *_, turned = drawn(objective, noise())
    assert turned.inputs.shape == (4 * BATCH, 3, 16, 16)
    crop, once = (turned.inputs[i, 0].float().numpy() for i in (0, BATCH))
    expected = Image.fromarray(crop).transpose(Image.Transpose.ROTATE_90)
    assert torch.equal(torch.from_numpy(once), torch.from_numpy(np.array(expected)))


def test_the_head_of_the_encoder_sees_no_turned_crops():
    """Or its BatchNorm would follow them."""
    objective, alone = build(equivariance="essl"), build()
    views = drawn(objective, noise())
    objective(views)
    alone(views[:2])
    for name, value in alone.encoder.head.state_dict().items():
        torch.testing.assert_close(objective.encoder.head.state_dict()[name], value)


def test_features_that_show_the_turn_have_no_loss():
    peer = peer_of(equivariance="essl")
    peer.head = nn.Identity()
    turns = 100 * torch.eye(4).repeat_interleave(BATCH, 0)
    view = planted(torch.zeros(4 * BATCH, 1), turns)
    assert peer.terms(view)["essl"].value.item() == 0
    assert quarter_turns(turns.roll(1, 0)).item() > 1


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (CLOUDS, "essl turns images by quarters: for point clouds choose augself"),
        (
            {"activation_checkpointing": True},
            "works with one forward pass per step, and essl needs two: leave it out",
        ),
        ({"turned_fraction": 0}, "turned_fraction must be greater than 0 and at most 1"),
        ({"turned_fraction": 1 / 3}, "turned_fraction 0.333333 needs a multiple of 3 images in each process, got 8"),
    ],
    ids=str,
)
def test_what_cannot_be_turned_is_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="essl", **chosen)


def test_a_network_for_one_size_says_which():
    with pytest.raises(ValueError, match=r"pictures of 32 pixels, but not of 16: choose `turned_fraction` 0\.25"):
        peer_of(equivariance="essl", model="vit_tiny_patch16_224")
    peer_of(equivariance="essl", model="test_vit")


def test_the_network_that_predicts_turns_is_as_wide_as_the_authors_or_in_proportion():
    widths = {model: peer_of(equivariance="essl", model=model).head[0].out_features for model in SIZES}
    assert widths == {"resnet18": 2048, "test_resnet": 384}


def test_a_quarter_of_the_images_is_turned_at_the_size_of_the_views():
    """As many pixels as all images at half the size."""
    quarter, everywhere = (small(equivariance="essl", turned_fraction=fraction) for fraction in (0.25, 1.0))
    assert quarter.views_a_step == everywhere.views_a_step == 3
    objective = build(equivariance="essl", turned_fraction=0.25)
    *_, turned = drawn(objective, noise())
    assert turned.inputs.shape == (BATCH, 3, 32, 32)
    crops = turned.inputs.unflatten(0, (4, BATCH // 4))
    for k in range(4):
        torch.testing.assert_close(crops[k], crops[0].rot90(k, (-2, -1)))


@pytest.mark.parametrize(("fraction", "side"), [(1, 16), (0.5, 23), (0.25, 32), (0.125, 32), (1 / 64, 32)])
def test_the_turned_crops_are_never_more_pixels_than_a_view_nor_larger(fraction, side):
    assert turned_size(fraction, 32) == side
    assert turned_size(1, 12) == 8
