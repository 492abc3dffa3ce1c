"""DUET: its formula, its minimum, and which parameters it can show."""

import math

import pytest
import torch
from scipy.stats import norm, vonmises

from care.augment import simclr
from care.augment.coordinates import IMAGE_NAMES
from care.losses import gaussian_bins, von_mises_bins
from care.methods.scaled_parameters import drawn_coordinates
from losses import literal
from methods.peers import CLOUDS, features_of, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small

HUE = IMAGE_NAMES.index("hue")


@pytest.mark.parametrize("policy", ["cifar10", "shapes"])
def test_it_is_its_formula(policy):
    """A hue in ±0.1 by a Gaussian, one in ±0.5 by von Mises' distribution, of SciPy."""
    objective = build(equivariance="duet", duet_weight=3.0, policy=policy)
    views = drawn(objective, noise())
    expected = []
    for f, view in zip(features_of(objective, views), views, strict=True):
        shown = [[mean.item() for mean in (bin.mean() for bin in row.chunk(4))] for row in f]
        p = [[math.exp(a) / sum(map(math.exp, row)) for a in row] for row in shown]
        q = []
        for hue in view.theta[:, HUE].tolist():
            centers = [(g + 0.5) / 4 for g in range(4)]
            if policy == "shapes":
                density = [vonmises.pdf(2 * math.pi * (c - hue - 0.5), kappa=3) for c in centers]
            else:
                density = [norm.pdf(c, loc=(hue + 0.1) / 0.2, scale=0.2) for c in centers]
            q.append([d / sum(density) for d in density])
        expected.append(literal.jensen_shannon(torch.tensor(p), torch.tensor(q)))
    term = objective(views)["duet"]
    assert term.value.item() == pytest.approx(literal.mean(expected), rel=2e-3)  # the range is that of 4,096 draws
    assert term.weight == 3.0


def test_features_that_show_the_parameter_have_no_loss():
    peer = peer_of(equivariance="duet", duet_parameter="brightness")
    theta = [drawn_coordinates(simclr())[rows] for rows in (slice(0, BATCH), slice(BATCH, 2 * BATCH))]
    features = [peer.target_bins(t).log().repeat_interleave(3, 1) for t in theta]
    views = [planted(t, f) for t, f in zip(theta, features, strict=True)]
    assert peer.terms(*views)["duet"].value.item() == pytest.approx(0, abs=1e-7)
    swapped = [planted(theta[0], features[1]), planted(theta[1], features[0])]
    assert peer.terms(*swapped)["duet"].value.item() > 0.01


def test_features_that_are_certain_have_a_finite_gradient():
    peer = peer_of(equivariance="duet")
    theta = drawn_coordinates(simclr())[:BATCH]
    features = torch.tensor([1e3, -1e3, -1e3, -1e3]).repeat(BATCH, 1).requires_grad_()
    peer.terms(*2 * [planted(theta, features)])["duet"].value.backward()
    assert features.grad.isfinite().all()


def test_the_ends_of_a_circle_meet_and_those_of_a_range_do_not():
    ends = torch.tensor([0.0, 1.0])
    torch.testing.assert_close(*von_mises_bins(ends, 8))
    first, last = gaussian_bins(ends, 8)
    torch.testing.assert_close(first, last.flip(0))
    assert first[0] > 100 * first[-1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"duet_parameter": "solarize"}, "not solarize: choose one of x, y, scale"),
        ({"duet_parameter": "hues"}, "not hues: choose one of"),
        ({**CLOUDS}, "not hue: rotations have three: choose sie or steerable"),
    ],
    ids=str,
)
def test_what_has_no_range_cannot_be_shown(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="duet", **chosen)


def test_bins_divide_the_features():
    with pytest.raises(ValueError, match=r"bins must divide the .* features of the model, got 7"):
        peer_of(equivariance="duet", bins=7)
