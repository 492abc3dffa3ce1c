"""EquiMod: its formula, its minimum, the view that is not augmented, and predictions from other views."""

import pytest
import torch
from torch import nn

from care.augment import simclr
from care.methods.scaled_parameters import drawn_coordinates
from losses import literal
from methods.peers import CLOUDS, features_of, passed, peer_of, planted
from objective.small import BATCH, build, drawn, noise


def normalized(x):
    """BatchNorm at its start, one column at a time."""
    columns = [(c - c.mean()) / torch.sqrt(((c - c.mean()) ** 2).mean() + 1e-5) for c in x.unbind(1)]
    return torch.stack(columns, 1)


def standardized(theta):
    std = drawn_coordinates(simclr()).std(0).double()
    return theta.double() / std.where(std > 0, 1.0)


def predictions(peer, sources, changes):
    """BN(W [y_s; BN(V ω_s)]), row by row."""
    V, W = peer.predictor.V[0].weight, peer.predictor.W[0].weight
    found = []
    for y, omega in zip(sources, changes, strict=True):
        v = normalized(torch.stack([V @ row for row in omega]))
        found.append(normalized(torch.stack([W @ torch.cat(pair) for pair in zip(y, v, strict=True)])))
    return torch.cat(found)


def hues_within(peer, theta):
    """Hues of which no two are further apart than half of their circle."""
    if "hue" in peer.standardized.names:
        hue = peer.standardized.names.index("hue")
        theta[..., hue] = theta[..., hue].clamp(-0.2, 0.2)
    return theta


def test_it_is_its_formula():
    objective = build(equivariance="equimod", equimod_temperature=0.3, equimod_weight=0.6)
    views, peer = drawn(objective, noise()), objective.equivariance
    y1, y2, y0 = passed(peer.head, features_of(objective, views))
    predicted = predictions(peer, [y0, y0], [standardized(view.theta) for view in views[:2]])
    expected = literal.info_nce(torch.cat([y1, y2]), predicted, temperature=0.3)
    term = objective(views)["equimod"]
    assert term.value.item() == pytest.approx(expected, rel=1e-5)
    assert term.weight == 0.6


@pytest.mark.parametrize("count", [2, 3])
def test_from_views_every_view_is_predicted_from_the_one_before(count):
    """ω is what changes between the two, the hue the shorter way around."""
    objective = build(equivariance="equimod", equimod_from="views", equimod_temperature=0.3, views=count)
    views, peer = drawn(objective, noise()), objective.equivariance
    y, n = passed(peer.head, features_of(objective, views)), range(count)
    assert len(views) == count
    changes = [views[i].theta - views[i - 1].theta for i in n]
    hue = peer.standardized.names.index("hue")
    for change in changes:
        change[:, hue] -= change[:, hue].round()
    predicted = predictions(peer, [y[i - 1] for i in n], [standardized(change) for change in changes])
    expected = literal.info_nce(torch.cat(y), predicted, temperature=0.3)
    assert objective(views)["equimod"].value.item() == pytest.approx(expected, rel=1e-5)


def test_the_third_view_is_the_picture():
    objective = build(equivariance="equimod")
    images = noise()
    views = drawn(objective, images)
    torch.testing.assert_close(views[2].inputs, images)
    assert not views[2].theta.any()
    assert objective.plan.method == (0, 1)
    assert objective.embedded == [0, 1]


def test_views_of_a_size_are_one_pass_through_the_backbone_and_the_third_passes_no_head():
    objective, alone = build(equivariance="equimod"), build()
    rows = []
    objective.encoder.backbone.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
    views = drawn(objective, noise())
    objective(views)
    alone(views[:2])
    assert rows == [3 * BATCH]
    for name, value in alone.encoder.head.state_dict().items():
        torch.testing.assert_close(objective.encoder.head.state_dict()[name], value)


@pytest.mark.parametrize("chosen", [{}, CLOUDS], ids=["images", "clouds"])
def test_embeddings_that_the_augmentation_shifts_as_predicted_have_no_loss(chosen):
    """y = (which picture, ω): the prediction (y_0, ω) ↦ y_0 + (0, ω) is exact, and far from all others."""
    peer = peer_of(equivariance="equimod", equimod_temperature=1e-3, **chosen)
    k = len(peer.standardized.names)
    theta = hues_within(peer, torch.randn(2, BATCH, k))

    class Shift(nn.Module):
        def forward(self, x):
            return x[:, :-k] + nn.functional.pad(x[:, -k:], (BATCH, 0))

    peer.head, peer.predictor = nn.Identity(), Shift()
    shifts = [torch.zeros(BATCH, k), *(t / peer.standardized.std for t in theta)]
    f0, f1, f2 = (torch.cat([3 * torch.eye(BATCH), shift], 1) for shift in shifts)
    views = [planted(theta[0], f1), planted(theta[1], f2), planted(torch.zeros(BATCH, k), f0)]
    assert peer.terms(*views)["equimod"].value.item() == pytest.approx(0, abs=1e-6)
    wrong = [planted(theta[1], f1), *views[1:]]
    assert peer.terms(*wrong)["equimod"].value.item() > 1


def test_from_views_embeddings_that_shift_as_predicted_have_no_loss():
    """y = (which picture, ω): the prediction (y_s, ω_i − ω_s) ↦ y_s + (0, ω_i − ω_s) is exact."""
    peer = peer_of(equivariance="equimod", equimod_from="views", equimod_temperature=1e-3)
    k = len(peer.standardized.names)
    theta = hues_within(peer, torch.randn(3, BATCH, k))

    class Shift(nn.Module):
        def forward(self, x):
            return x[:, :-k] + nn.functional.pad(x[:, -k:], (BATCH, 0))

    peer.head, peer.predictor = nn.Identity(), Shift()
    views = [planted(t, torch.cat([3 * torch.eye(BATCH), t / peer.standardized.std], 1)) for t in theta]
    assert peer.terms(*views)["equimod"].value.item() == pytest.approx(0, abs=1e-6)
    assert peer.terms(planted(theta[1], views[0].f), *views[1:])["equimod"].value.item() > 1


def test_what_predicts_is_kept():
    kept = peer_of(equivariance="equimod").exported()
    assert {"head.0.weight", "predictor.V.0.weight", "standardized.std"} <= kept.keys()
