"""Generators that are trained with the encoder: what reaches them, what they leave alone, and what they find."""

import copy
import math

import pytest
import torch

from care.augment import PointPolicy, coordinates
from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.geometry import exponential, skew
from care.losses import equivariance, info_nce, steering, uniformity
from care.methods import MethodSettings, build_encoder, build_method, generators_for
from care.models import forward_views

BATCH, CHUNKS = 8, 2
STEPS = 300


def build(**settings):
    torch.manual_seed(0)
    chosen = {"model": "test_resnet", "embedding": 8, "head_width": 16, "chunks": CHUNKS, "queue": 16, **settings}
    chosen = MethodSettings(**chosen)
    return build_method(chosen, build_encoder(chosen, (32, 32)), BATCH)


def drawn(method, seed=0, rows=slice(None)):
    """What a step draws of eight pictures of noise."""
    images = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(1))[rows]
    return method.plan.draw(images, BATCH, rows, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "settings",
    [
        {"equivariance": 2.0},
        {},
        {"views": 2},
        {"views": 2, "chunked_views": 1, "equivariance": 1.0},
        {"shared_by": "batch"},
        {"method": "mocov2"},
        {"method": "byol", "equivariance": 1.0},
        {"method": "equivariance", "equivariance": 1.0},
    ],
    ids=str,
)
def test_gradients_reach_generators_and_encoder(settings):
    method = build(steering=3.0, steering_rank=6, **settings)
    terms = method(*drawn(method))
    (reached,) = method.generators.parameters()
    parts = torch.autograd.grad(terms["steering"], [reached, *method.encoder.head.parameters()])
    assert all(torch.isfinite(part).all() and part.abs().max() > 0 for part in parts)
    others = sum(value for name, value in terms.items() if name != "steering")
    assert others == 0 or torch.autograd.grad(others, reached, allow_unused=True)[0] is None
    assert method.generators().shape == (len(IMAGE_NAMES), 6, 6)


@pytest.mark.parametrize("settings", [{}, {"views": 2, "chunked_views": 1}, {"shared_by": "batch"}], ids=str)
def test_the_loss_is_that_of_the_augmentations_that_were_drawn(settings):
    """Drawn again from the policy, as coordinates of every sample instead of a row per draw."""
    method = build(steering=1.0, **settings)
    inputs = drawn(method, seed=5)
    again, z = torch.Generator().manual_seed(5), []
    encoder, theta = copy.deepcopy(method.encoder), []
    for view, picture in zip(method.plan.views, inputs, strict=False):
        p = view.policy.sample(view.draws, (32, 32), again).repeat(BATCH // view.draws)
        theta.append(coordinates(p, view.policy.center))
        z.append(encoder(picture))
    i, j = method.plan.chunked
    expected = steering(z[i], z[j], theta[i], theta[j], method.generators())
    torch.testing.assert_close(method(*inputs)["steering"], expected, rtol=1e-4, atol=1e-6)


def test_processes_get_the_coordinates_of_their_own_rows():
    method = build(steering=1.0, equivariance=1.0)
    whole = drawn(method)[4:]
    halves = [drawn(method, rows=rows)[4:] for rows in (slice(0, 4), slice(4, 8))]
    for i in range(2):
        assert torch.equal(whole[i], torch.cat([half[i] for half in halves]))


def test_without_steering_training_is_what_it_was():
    """Bit for bit: three steps of Adam on the two losses of the paper, written out."""
    method = build(equivariance=2.0, steering=0.0)
    assert [name for name, _ in method.named_children()] == ["encoder", "loss"]
    encoder = copy.deepcopy(method.encoder)
    adams = [torch.optim.Adam(network.parameters(), 1e-2) for network in (method, encoder)]
    for step in range(3):
        views = drawn(method, seed=step)
        z = forward_views(encoder, views)
        losses = (
            method.loss.total(method(*views)),
            torch.stack([info_nce(z[0], z[1]), 2 * equivariance(z[2], z[3], CHUNKS)]).sum(),
        )
        for adam, loss in zip(adams, losses, strict=True):
            adam.zero_grad()
            loss.backward()
            adam.step()
    pairs = zip(method.encoder.parameters(), encoder.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_steering_draws_the_same_views_and_starts_from_the_same_encoder():
    with_it, without = build(equivariance=2.0, steering=1.0), build(equivariance=2.0)
    assert all(torch.equal(a, b) for a, b in zip(drawn(with_it), drawn(without), strict=False))
    pairs = zip(with_it.encoder.parameters(), without.encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_planted_generators_are_recovered_with_a_linear_encoder(generator):
    """x → R(θ) x with two generators that do not commute, seen through a linear map that is trained as well."""
    m, n = 6, 64
    planted = torch.stack([skew(torch.randn(m, m, generator=generator)) for _ in range(2)])
    learned = generators_for("simclr", m)
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
    fixed = generators_for("rotations", 16)
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
    ours, again = (generators_for(name, 8) for name in ("simclr", "cifar10"))
    assert ours.names == IMAGE_NAMES
    assert torch.equal(ours(), again())
    assert torch.equal(ours(), -ours().mT)
    assert ours()[IMAGE_NAMES.index("hue")].norm() > math.pi


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steering": -1.0}, r"steering \(μ\) must not be negative"),
        ({"steering": 1.0, "steering_rank": 1}, r"steering_rank must be in \[2, 512\]"),
        ({"steering": 1.0, "chunks": 3}, "chunks must divide a batch of 8"),
        ({"steering": 1.0, "equivariance": 1.0, "form": "minkowski"}, "steering turns spheres"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MethodSettings(**{"chunks": 2, **settings}).check(BATCH)
