"""AugSelf: its formula, its minimum, and what it may predict."""

import math

import pytest
import torch
from torch import nn

from care.augment import PointPolicy, coordinates, hue_only, relative, simclr
from care.augment.coordinates import IMAGE_NAMES
from care.augment.points import rotation_from_quaternion
from care.methods.scaled_parameters import drawn_coordinates
from losses import literal
from methods.peers import CLOUDS, features_of, passed, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small

COLUMNS = {"crop": slice(0, 4), "color": slice(5, 9), "flip": slice(4, 5)}


def test_of_four_views_each_is_compared_with_the_next():
    objective = build(equivariance="augself", predicted="color,flip", views=4)
    views, peer = drawn(objective, noise()), objective.equivariance
    f, theta = features_of(objective, views), [view.theta.double() for view in views]
    terms, order = objective(views), [(0, 1), (1, 2), (2, 3), (3, 0)]
    for name in ("color", "flip"):
        guesses = passed(peer.predictors[name], [torch.cat([f[i], f[j]], 1) for i, j in order])
        changes = [(theta[i] - theta[j])[:, COLUMNS[name]] for i, j in order]
        if name == "flip":
            expected = [literal.differ(guess, change != 0) for guess, change in zip(guesses, changes, strict=True)]
        else:
            scaled = [change / drawn_coordinates(simclr()).std(0)[COLUMNS[name]] for change in changes]
            expected = [literal.parameter_difference(g, change) for g, change in zip(guesses, scaled, strict=True)]
        assert terms[f"augself_{name}"].value.item() == pytest.approx(literal.mean(expected), rel=1e-6)


def test_it_is_its_formula():
    objective = build(equivariance="augself", predicted="crop, color,flip", augself_weight=0.7)
    views, peer = drawn(objective, noise()), objective.equivariance
    f1, f2 = features_of(objective, views)
    theta = [view.theta.double() for view in views]
    terms = objective(views)
    assert list(terms) == ["info_nce", "augself_crop", "augself_color", "augself_flip"]
    for name, columns in COLUMNS.items():
        guesses = passed(peer.predictors[name], [torch.cat([f1, f2], 1), torch.cat([f2, f1], 1)])
        change = (theta[0] - theta[1])[:, columns]
        if name == "flip":
            expected = [literal.differ(guess, change != 0) for guess in guesses]
        else:
            change = change / drawn_coordinates(simclr()).std(0)[columns]
            expected = [
                literal.parameter_difference(g, sign * change) for g, sign in zip(guesses, (1, -1), strict=True)
            ]
        assert terms[f"augself_{name}"].value.item() == pytest.approx(literal.mean(expected), rel=1e-6)
        assert terms[f"augself_{name}"].weight == 0.7


@pytest.mark.parametrize("policy", ["cifar10", "rotations"])
def test_features_that_hold_the_parameters_have_no_loss(policy):
    """φ([f1; f2]) = f1 − f2 of features that are ω; of clouds about one axis, where rotations add."""
    clouds = CLOUDS if policy == "rotations" else {}
    peer = peer_of(equivariance="augself", **clouds)
    theta = [drawn_coordinates(simclr())[:BATCH], drawn_coordinates(simclr())[BATCH : 2 * BATCH]]
    if clouds:
        theta = [torch.cat([t[:, :1], torch.zeros(BATCH, 3)], 1) for t in theta]
    k = theta[0].shape[1]
    for name, columns in peer.columns.items():
        exact = nn.Linear(2 * k, columns.stop - columns.start, bias=False)
        exact.weight.data = torch.cat([torch.eye(k)[columns], -torch.eye(k)[columns]], 1)
        peer.predictors[name] = exact
    views = [planted(t, t / peer.standardized.std) for t in theta]
    for name, term in peer.terms(*views).items():
        assert term.value.item() == pytest.approx(0, abs=1e-10), name
    views[0].features.add_(0.1)
    assert all(term.value.item() > 1e-3 for term in peer.terms(*views).values())


def test_coordinates_are_divided_by_what_the_policy_spreads_them():
    """Against formulas: a hue uniform in ±0.1 with probability 0.8, a flip of probability ½, and gray of 0.2."""
    std = dict(zip(IMAGE_NAMES, drawn_coordinates(simclr()).std(0).tolist(), strict=True))
    assert std["hue"] == pytest.approx(math.sqrt(0.8 / 3) * 0.1, rel=0.05)
    assert std["flip"] == pytest.approx(0.5, rel=0.05)
    assert std["gray"] == pytest.approx(0.4, rel=0.05)
    assert std["solarize"] == 0
    only = dict(zip(IMAGE_NAMES, drawn_coordinates(hue_only()).std(0).tolist(), strict=True))
    assert {name for name, value in only.items() if value} == {"hue"}


def test_what_leads_from_a_rotation_to_another(generator):
    """Of clouds by the product of the matrices, of images by the difference; two shifts of hue that give one picture
    are led to alike."""
    p = PointPolicy(scale=(0.5, 2.0)).sample(2 * BATCH, (1,), generator)
    a, b = p[:BATCH], p[BATCH:]
    found = relative(coordinates(a), coordinates(b))
    half = found[:, :3].norm(dim=1, keepdim=True) / 2
    R = rotation_from_quaternion(torch.cat([half.cos(), half.sin() * found[:, :3] / (2 * half)], 1))
    torch.testing.assert_close(R @ a.rotation, b.rotation, atol=1e-5, rtol=0)
    torch.testing.assert_close(found[:, 3].exp() * a.scale, b.scale)
    theta = drawn_coordinates(simclr())
    torch.testing.assert_close(relative(theta[:4], theta[4:8]), theta[4:8] - theta[:4])
    hue = IMAGE_NAMES.index("hue")
    shifts = drawn_coordinates(hue_only())[:64]
    a, b = shifts[:32], shifts[32:]
    found, turned = relative(a, b), relative(a, b + torch.eye(b.shape[1])[hue])  # once round the circle
    torch.testing.assert_close(found, turned)
    assert found[:, hue].abs().max() <= 0.5
    assert (b - a)[:, hue].abs().max() > 0.6
    torch.testing.assert_close((found[:, hue] * 2 * torch.pi).cos(), ((b - a)[:, hue] * 2 * torch.pi).cos())


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"predicted": "rotation"}, "the policy draws crop, color, flip, gray, blur, and not rotation"),
        ({"predicted": "crop,solarize"}, "and not solarize"),
        ({"policy": "hue_only", "predicted": "crop"}, "the policy draws color, and not crop"),
        ({**CLOUDS, "predicted": "color"}, "draws rotation, and not color"),
        ({"predicted": ""}, "predicted has an empty name, got '': write names separated by commas, such as crop,color"),
        ({**CLOUDS, "predicted": "rotation,"}, "empty name, got 'rotation,': .* such as rotation,scale"),
    ],
    ids=str,
)
def test_what_the_policy_does_not_draw_cannot_be_predicted(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="augself", **chosen)


def test_parameters_are_scaled_by_the_views_of_both_policies():
    """Under BYOL's policies only the second view is ever solarized."""
    objective = build(equivariance="augself", policy="byol", second_policy="byol_second", predicted="crop,solarize")
    first, second = (drawn_coordinates(view.policy) for view in objective.plan.views)
    expected = torch.cat([first, second]).std(0)
    column = IMAGE_NAMES.index("solarize")
    assert first[:, column].std() == 0
    torch.testing.assert_close(objective.equivariance.standardized.std, expected.double())
    assert "solarize" in objective.equivariance.predictors


def test_the_networks_are_as_wide_as_the_authors_or_as_their_input():
    for model, width in {"resnet18": 512, "test_resnet": 192}.items():
        phi = peer_of(equivariance="augself", model=model, prediction_width=None).predictors["crop"]
        assert [layer.out_features for layer in phi if isinstance(layer, nn.Linear)] == [width, width, 4]
