"""CASSLE: its formula, its minimum, and the encoder without it."""

import copy

import pytest
import torch
from torch import nn

from care.losses import byol, info_nce, queue_info_nce
from care.objective import total
from methods.peers import CLOUDS, features_of, passed, peer_of, planted
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


def conditioned_by_hand(condition, encoder, inputs, theta):
    """One linear layer on the concatenation [f; γ(ω) − γ(0)], then the rest of the head: of one view, by a copy."""
    condition, encoder = copy.deepcopy(condition), copy.deepcopy(encoder)
    omega = theta.double() / condition.standardized.std
    gamma = condition.gamma(omega) - condition.gamma(torch.zeros_like(omega))
    first = torch.cat([encoder.head[0].weight, condition.V.weight], 1)
    return encoder.head[1:](torch.cat([encoder.features(inputs), gamma], 1) @ first.T)


def with_another_teacher(objective):
    """As after some training: the teacher, and what its head is told by, are not the encoder."""
    for parameter in (*objective.method.teacher.parameters(), *objective.method.teacher_condition.parameters()):
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)).double()
    return objective


def test_the_head_of_a_teacher_is_told_by_a_copy():
    objective = with_another_teacher(build(equivariance="cassle", method="byol"))
    views, method = drawn(objective, noise()), objective.method
    z = [conditioned_by_hand(objective.equivariance, objective.encoder, v.inputs, v.theta) for v in views]
    taught = [conditioned_by_hand(method.teacher_condition, method.teacher, v.inputs, v.theta) for v in views]
    predicted = passed(method.predictor, z)
    torch.testing.assert_close(objective(views)["byol"].value, byol(*predicted, *taught), rtol=1e-6, atol=0)


def test_keys_of_moco_are_told_in_their_groups():
    """8 keys are two BatchNorm groups, and the encoder does not see them."""
    objective = with_another_teacher(build(equivariance="cassle", method="mocov2", temperature=0.1))
    views, moco = drawn(objective, noise()), objective.method
    assert objective.seen == [0]
    query = conditioned_by_hand(objective.equivariance, objective.encoder, views[0].inputs, views[0].theta)
    key = torch.empty_like(query)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        key[part] = conditioned_by_hand(
            moco.teacher_condition, moco.teacher, views[1].inputs[part], views[1].theta[part]
        )
    expected = queue_info_nce(query, key, moco.queue, 0.1)
    torch.testing.assert_close(objective(views)["info_nce"].value, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("method", ["byol", "mocov2", "mocov3"])
def test_what_the_teacher_is_told_by_follows(method):
    objective = build(equivariance="cassle", method=method, teacher_momentum=0.9)
    told, before = (
        objective.method.teacher_condition,
        [p.clone() for p in objective.method.teacher_condition.parameters()],
    )
    with torch.no_grad():
        for p in objective.equivariance.parameters():
            p.add_(1.0)
    objective(drawn(objective, noise()))
    objective.after_step(torch.tensor(0.0, dtype=torch.float64))
    for after, old in zip(told.parameters(), before, strict=True):
        torch.testing.assert_close(after, old + 0.1)
        assert not after.requires_grad
    assert "method.teacher_condition.V.weight" in objective.state_dict()


def test_without_a_method_there_is_no_loss_to_change():
    with pytest.raises(ValueError, match="cassle changes the head and has no loss of its own: choose a method"):
        small(equivariance="cassle", method="none")
