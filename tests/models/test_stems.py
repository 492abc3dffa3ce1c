"""Stems of ResNets: which one images of a size get, and what is left of the resolution."""

import pytest
import timm
import torch
from torch import nn

from care.models import build_backbone, describe_stem, stem_of, stem_of_weights

STRIDES = {"cifar": 1, "tiny_imagenet": 2, "imagenet": 4}


@pytest.mark.parametrize(
    ("side", "stem", "places"),
    [(24, "cifar", 3), (32, "cifar", 4), (33, "tiny_imagenet", 3), (64, "tiny_imagenet", 4), (65, "imagenet", 3),
     (96, "imagenet", 3), (224, "imagenet", 7)],
)  # fmt: skip
def test_the_cheapest_that_leaves_three_places(side, stem, places):
    with torch.device("meta"):
        model, _ = build_backbone("resnet18", (side, side))
        assert model.forward_features(torch.empty(1, 3, side, side)).shape[2:] == (places, places)
    assert stem_of(model) == stem
    assert describe_stem(model, side).startswith(f"{stem}: ")
    assert f" give a last feature map of {places}×{places} for {side} px" in describe_stem(model, side)


@pytest.mark.parametrize("name", ["resnet18", "resnet10t", "seresnext26d_32x4d"])
@pytest.mark.parametrize("stem", ["cifar", "tiny_imagenet", "imagenet"])
def test_a_stem_of_ones_choice(name, stem):
    with torch.device("meta"):
        model, features = build_backbone(name, (64, 64), stem)
        found = model.forward_features(torch.empty(1, 3, 64, 64))
    assert found.shape == (1, features, *[64 // (8 * STRIDES[stem])] * 2)
    assert stem_of(model) == stem


def test_what_was_trained_at_32_pixels_begins_with_the_same_weights():
    """The literal recipe: timm's model, then a convolution by Kaiming's rule in place of its own."""
    torch.manual_seed(3)
    ours, _ = build_backbone("resnet18", (32, 32))
    torch.manual_seed(3)
    theirs = timm.create_model("resnet18", num_classes=0)
    theirs.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(theirs.conv1.weight, mode="fan_out", nonlinearity="relu")
    theirs.maxpool = nn.Identity()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(torch.equal(tensor, theirs.state_dict()[key]) for key, tensor in ours.state_dict().items())


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "densenet121"])
def test_other_stems_stay_as_they_are(name):
    """Of a deep one, too, unless it is chosen: the small networks that have it would cost sixteen times as much."""
    with torch.device("meta"):
        model, _ = build_backbone(name, (32, 32))
        assert str(model) == str(timm.create_model(name, num_classes=0, **_size(name)))
        assert stem_of(model) == "imagenet"


def _size(name):
    return {"img_size": 32} if "vit" in name else {}


@pytest.mark.parametrize("name", ["test_vit", "small_resnet"])
def test_only_resnets_have_a_choice(name):
    with pytest.raises(ValueError, match="has no ResNet stem to turn into cifar: leave out stem"):
        build_backbone(name, (32, 32), "cifar")
    assert describe_stem(build_backbone(name, (32, 32))[0], 32) is None


def test_weights_that_do_not_say_their_stem():
    """3×3 where timm has 7×7 was once for all images of up to 64 px, without a max-pool."""
    weights = {"conv1.weight": torch.zeros(64, 3, 3, 3)}
    assert stem_of_weights(weights, {}) == "cifar"
    assert stem_of_weights(weights, {"stem": "tiny_imagenet"}) == "tiny_imagenet"
    assert stem_of_weights({"conv1.weight": torch.zeros(64, 3, 7, 7)}, {}) == "imagenet"
    assert stem_of_weights({"conv1.0.weight": torch.zeros(16, 3, 3, 3)}, {}) == "imagenet"
