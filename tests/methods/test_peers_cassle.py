"""CASSLE: its formula, its minimum, and the encoder without it."""

import copy

import pytest
import torch
from torch import nn

from care.losses import info_nce
from care.objective import total
from methods.peers import CLOUDS, features_of, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small


def test_it_is_a_head_that_sees_features_and_augmentation():
    """Against one linear layer on the concatenation [f; γ(ω)], whose bias takes the constant."""
    objective = build(equivariance="cassle")
    views, peer, head = drawn(objective, noise()), objective.equivariance, copy.deepcopy(objective.encoder.head)
    joint = nn.Linear(head[0].in_features + 8, head[0].out_features).double()
    joint.weight.data = torch.cat([head[0].weight, peer.V.weight], 1)
    joint.bias.data = -peer.V(peer.gamma(torch.zeros(1, 12).double()))[0]
    embeddings = []
    for f, view in zip(features_of(objective, views), views, strict=True):
        omega = view.theta.double() / peer.standardized.std
        embeddings.append(copy.deepcopy(head[1:])(joint(torch.cat([f, peer.gamma(omega)], 1))))
    terms = objective(views)
    torch.testing.assert_close(total(terms), info_nce(*embeddings), rtol=1e-6, atol=0)
    assert list(terms) == ["info_nce"]


def test_the_encoder_alone_is_the_head_that_is_told_of_no_augmentation():
    objective = build(equivariance="cassle").eval()
    images = noise()
    features = objective.encoder.features(images)
    for theta, same in ((torch.zeros(BATCH, 12), True), (torch.ones(BATCH, 12), False)):
        (z,) = objective.equivariance.embed(objective.encoder.head, [planted(theta, features)])
        assert torch.allclose(z, objective.encoder(images)) == same


@pytest.mark.parametrize("chosen", [{}, CLOUDS], ids=["images", "clouds"])
def test_features_may_hold_the_augmentation_and_have_no_loss(chosen, generator):
    """f = (image, ω), and a head that takes ω from it: the embedding does not change with the augmentation."""
    peer = peer_of(equivariance="cassle", method="invariance", **chosen)
    k = len(peer.standardized.names)
    image, theta = torch.randn(BATCH, 3, generator=generator), torch.randn(2, BATCH, k, generator=generator)
    first = nn.Linear(3 + k, 3 + k, bias=False)
    first.weight.data = torch.eye(3 + k)
    peer.gamma, peer.V = nn.Identity(), nn.Linear(k, 3 + k, bias=False)
    peer.V.weight.data = -torch.eye(3 + k)[:, 3:]
    views = [planted(t, torch.cat([image, t / peer.standardized.std], 1)) for t in theta]
    z1, z2 = peer.embed(nn.Sequential(first), views)
    torch.testing.assert_close(z1, z2)
    assert not torch.allclose(views[0].f, views[1].f)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"method": "none"}, "cassle changes the head and has no loss of its own: choose a method"),
        ({"method": "byol"}, "the teacher of BYOL is not told: choose a method without a teacher"),
        ({"method": "mocov2"}, "the teacher of MoCo is not told"),
    ],
    ids=str,
)
def test_methods_with_a_teacher_are_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="cassle", **chosen)
