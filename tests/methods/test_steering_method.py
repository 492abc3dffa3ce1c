"""Generators that are trained with the encoder: what reaches them, what they leave alone, and what they find."""

import copy
import math
from functools import partial

import pytest
import torch

from care.augment import PointPolicy, coordinates
from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.geometry import exponential, skew
from care.losses import equivariance, info_nce, steering, uniformity
from care.methods.steering import generators_for
from care.objective import total
from objective.small import BATCH, SMALLER, drawn, noise
from objective.small import build as build_any

build = partial(build_any, **SMALLER)
STEPS = 150


@pytest.mark.parametrize(
    "chosen",
    [
        {"care_weight": 2.0},
        {},
        {"equivariance_views": "shared"},
        {"equivariance_views": "mixed", "care_weight": 1.0},
        {"augmentation_per": "batch"},
        {"method": "mocov2"},
        {"method": "byol", "care_weight": 1.0},
        {"method": "none"},
    ],
    ids=str,
)
def test_gradients_reach_generators_and_encoder(chosen):
    objective = build(equivariance="steering", steering_weight=3.0, **chosen)
    terms = objective(drawn(objective, noise()))
    (reached,) = objective.equivariance.generators.parameters()
    parts = torch.autograd.grad(terms["steering"].value, [reached, *objective.encoder.head.parameters()])
    assert all(torch.isfinite(part).all() and part.abs().max() > 0 for part in parts)
    others = sum(term.value for name, term in terms.items() if name != "steering")
    assert others == 0 or torch.autograd.grad(others, reached, allow_unused=True)[0] is None
    assert ("equivariance" in terms) == ("care_weight" in chosen)
    assert objective.exported()["generators"].shape == (len(IMAGE_NAMES), 6, 6)


@pytest.mark.parametrize("chosen", [{}, {"equivariance_views": "mixed"}, {"augmentation_per": "batch"}], ids=str)
def test_the_loss_is_that_of_the_augmentations_that_were_drawn(chosen):
    """Drawn again from the policy, as coordinates of every sample instead of a row per draw."""
    objective = build(equivariance="steering", **chosen)
    views = drawn(objective, noise(), seed=5)
    again, z = torch.Generator().manual_seed(5), []
    encoder, theta = copy.deepcopy(objective.encoder), []
    for spec, view in zip(objective.plan.views, views, strict=True):
        p = spec.policy.sample(spec.draws, (32, 32), again).repeat(BATCH // spec.draws)
        theta.append(coordinates(p, spec.policy.center))
        z.append(encoder(view.inputs))
    i, j = objective.plan.equivariance
    expected = steering(z[i], z[j], theta[i], theta[j], objective.equivariance.generators())
    torch.testing.assert_close(objective(views)["steering"].value, expected, rtol=1e-4, atol=1e-6)


def test_care_without_steering_is_two_losses_written_out():
    """Bit for bit: three steps of Adam on the two losses of the paper."""
    objective = build(equivariance="care", care_weight=2.0)
    encoder = copy.deepcopy(objective.encoder)
    adams = [torch.optim.Adam(network.parameters(), 1e-2) for network in (objective, encoder)]
    for step in range(3):
        views = drawn(objective, noise(), seed=step)
        z = [z for _, z in encoder.encode_views([view.inputs for view in views])]
        losses = (
            total(objective(views)),
            torch.stack([info_nce(z[0], z[1]), 2 * equivariance(z[2], z[3], 4)]).sum(),
        )
        for adam, loss in zip(adams, losses, strict=True):
            adam.zero_grad()
            loss.backward()
            adam.step()
    pairs = zip(objective.encoder.parameters(), encoder.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_steering_draws_the_same_views_and_starts_from_the_same_encoder():
    with_it, without = build(equivariance="steering", care_weight=2.0), build(equivariance="care")
    for a, b in zip(drawn(with_it, noise()), drawn(without, noise()), strict=True):
        assert torch.equal(a.inputs, b.inputs)
    pairs = zip(with_it.encoder.parameters(), without.encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_planted_generators_are_recovered_with_a_linear_encoder(generator):
    """x → R(θ) x with two generators that do not commute, seen through a linear map that is trained as well."""
    m, n = 6, 64
    planted = torch.stack([skew(torch.randn(m, m, generator=generator)) for _ in range(2)])
    learned = generators_for(False, m)
    with torch.no_grad():
        learned.free.zero_()
    W = torch.linalg.qr(torch.randn(m, m, generator=generator)).Q.clone().requires_grad_()
    adam = torch.optim.Adam([{"params": [W], "lr": 0.03}, {"params": learned.parameters(), "lr": 0.2}])
    cool = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, STEPS)

    def views():
        """(f(a x), f(a' x), θ, θ'), four augmentations at a time."""
        x, theta = torch.randn(n, m, generator=generator), torch.zeros(2, 4, len(IMAGE_NAMES))
        theta[:, :, :2] = 0.7 * torch.randn(2, 4, 2, generator=generator)
        R = exponential(torch.einsum("vbk,kij->vbij", theta[..., :2], planted))
        z = (x.view(1, 4, -1, m) @ R.mT).flatten(1, 2) @ W.mT
        return *z, *theta

    for _ in range(STEPS):
        z1, z2, *theta = views()
        loss = 10 * steering(z1, z2, *theta, learned()) + uniformity(z1, z2)
        adam.zero_grad()
        loss.backward()
        adam.step()
        cool.step()
    z1, z2, *theta = views()
    assert steering(z1, z2, *theta, learned()) < 1e-3 < 0.1 < steering(z1, z2, *theta, 0 * learned())
    found = learned().detach()
    for ours, truth in zip(found[:2], planted, strict=True):
        angles = [torch.linalg.eigvals(A).imag.sort().values for A in (ours, truth)]
        torch.testing.assert_close(*angles, rtol=0, atol=0.05)


def test_point_clouds_are_turned_by_a_representation_of_the_rotations(generator):
    """R(ba) = R(b) R(a), whatever the angles, and nothing to learn."""
    fixed = generators_for(True, 16)
    assert not list(fixed.parameters())
    policy = PointPolicy()
    a, b = (policy.sample(20, (5,), generator) for _ in range(2))
    both = policy.unchanged(20, (5,))
    object.__setattr__(both, "rotation", b.rotation @ a.rotation)
    R_a, R_b, R_ba = (exponential(torch.einsum("bk,kij->bij", coordinates(p), fixed())) for p in (a, b, both))
    torch.testing.assert_close(R_b @ R_a, R_ba, rtol=0, atol=1e-4)
    assert torch.linalg.matrix_rank(fixed()[:3].flatten(0, 1)) == 16  # no direction stays
    assert fixed.names == POINT_NAMES


def test_generators_are_skew_and_the_same_every_time():
    ours, again = (generators_for(False, 8) for _ in range(2))
    assert ours.names == IMAGE_NAMES
    assert torch.equal(ours(), again())
    assert torch.equal(ours(), -ours().mT)
    assert ours()[IMAGE_NAMES.index("hue")].norm() > math.pi
