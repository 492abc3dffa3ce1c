"""LooC: its formula, its minimum, and views that share one augmentation."""

import pytest
import torch
from torch import nn

from care.augment.coordinates import IMAGE_NAMES
from care.objective.views import ViewPlan
from losses import literal
from methods.peers import CLOUDS, features_of, passed, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small

CROP = [IMAGE_NAMES.index(name) for name in ("x", "y", "scale", "aspect")]
COLOR = [IMAGE_NAMES.index(name) for name in ("brightness", "contrast", "saturation", "hue")]


def test_it_is_its_formula():
    objective = build(equivariance="looc", left_out="color, crop", looc_temperature=0.3, looc_weight=0.6)
    views, peer = drawn(objective, noise()), objective.equivariance
    f, expected = features_of(objective, views), []
    for space, head in enumerate(peer.heads):
        q, *keys = passed(head, f)
        expected.append(literal.leave_one_out(q, keys, space + 1, 0.3))
    term = objective(views)["looc"]
    assert term.value.item() == pytest.approx(literal.mean(expected), rel=1e-9)
    assert term.weight == 0.6


def test_each_key_shares_one_augmentation_with_the_query():
    plan = build(equivariance="looc", left_out="color,crop").plan
    told = ViewPlan(plan.views, plan.method, plan.equivariance, theta=True)
    q, k0, color, crop = (view.theta for view in drawn(type("Objective", (), {"plan": told}), noise()))
    assert torch.equal(q[:, COLOR], color[:, COLOR])
    assert torch.equal(q[:, CROP], crop[:, CROP])
    for key, columns in ((k0, COLOR), (k0, CROP), (color, CROP), (crop, COLOR)):
        same = torch.isclose(q[:, columns], key[:, columns]).all(1)
        assert same.sum() <= 1  # two colors that are both left as they are


def test_an_augmentation_that_is_named_twice_has_one_space():
    twice, once = (build(equivariance="looc", left_out=names) for names in ("color, crop,color", "color,crop"))
    assert twice.plan == once.plan
    assert len(twice.equivariance.heads) == 2
    views = drawn(once, noise())
    assert twice(views)["looc"].value.item() == pytest.approx(once(views)["looc"].value.item())


def test_the_views_of_the_method_are_those_it_draws_alone():
    with_looc, alone = (drawn(build(**chosen), noise()) for chosen in ({"equivariance": "looc"}, {}))
    for ours, theirs in zip(with_looc, alone, strict=False):
        assert torch.equal(ours.inputs, theirs.inputs)


def test_features_that_hold_image_and_color_have_no_loss(generator):
    """q and k_1 agree, k_0 has another color."""
    peer = peer_of(equivariance="looc", looc_temperature=1e-3)
    peer.heads[0] = nn.Identity()
    image, (own, other) = torch.eye(BATCH), torch.randn(2, BATCH, 3, generator=generator)
    q, k0, k1 = (planted(torch.zeros(BATCH, 1), torch.cat([image, c], 1)) for c in (own, other, own))
    assert peer.terms(q, k0, k1)["looc"].value.item() == pytest.approx(0, abs=1e-6)
    assert peer.terms(q, k1, k0)["looc"].value.item() > 1


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (CLOUDS, "looc needs several augmentations, and point clouds have one"),
        ({"left_out": "solarize"}, "left_out: the policy draws crop, flip, color, gray, blur, and not solarize"),
        ({"left_out": "colour"}, "left_out takes crop, flip, .*, not colour"),
        ({"left_out": "color,"}, "left_out has an empty name, got 'color,': write names separated by commas"),
    ],
    ids=str,
)
def test_what_the_policy_does_not_draw_cannot_be_left_out(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="looc", **chosen)
