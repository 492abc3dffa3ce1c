"""Parameters that act on features as rotations, translations or not at all: who decodes them?"""

import dataclasses

import pytest
import torch

from care.augment import ImagePolicy, apply
from care.evaluate.decoding import network
from care.evaluate.decoding.decode import parameter_r2
from care.evaluate.decoding.network import network_predictions
from care.evaluate.decoding.ridge import ridge_predictions
from care.evaluate.decoding.targets import Target, parameter_targets

DECODERS = ("network", "bilinear", "linear")


def target(values):
    return Target(values.reshape(len(values), -1), torch.ones(len(values), dtype=torch.bool))


def scores(H, H_a, targets):
    return {decoder: parameter_r2(H, H_a, targets, decoder) for decoder in DECODERS}


def rotated(H, theta):
    """R(θ) h, with R(θ) a product of rotations of the planes (0, 1), (2, 3), … by θ, 2θ, 3θ, θ …"""
    planes = torch.view_as_complex(H.unflatten(1, (-1, 2)))
    angles = theta[:, None] * (torch.arange(planes.shape[1]) % 3 + 1)
    return torch.view_as_real(planes * torch.polar(torch.ones_like(angles), angles)).flatten(1)


def test_a_rotation_is_decoded_from_products_and_by_a_network_but_not_by_linear_regression(generator):
    H, theta = torch.randn(3000, 4, generator=generator), 2 * torch.rand(3000, generator=generator) - 1
    found = scores(H, rotated(H, theta), {"angle": target(theta)})
    assert abs(found["linear"]["angle"]) < 0.02
    assert found["bilinear"]["angle"] > 0.9
    assert found["network"]["angle"] > 0.9


def test_a_translation_is_decoded_by_all(generator):
    H, theta = torch.randn(1000, 8, generator=generator), torch.randn(1000, 1, generator=generator)
    found = scores(H, H + theta * torch.randn(8, generator=generator), {"shift": target(theta)})
    assert min(by["shift"] for by in found.values()) > 0.97
    assert found["linear"]["shift"] > 0.9999


def test_a_network_finds_what_little_a_linear_decoder_finds(generator):
    """R² = 0.08 of 64 features, from 1,500 rows: too few for a network alone, which predicts the mean."""
    H, w = torch.randn(3000, 64, generator=generator), torch.randn(64, 1, generator=generator)
    signal = H @ w / w.norm()
    y = 0.3 * signal + torch.randn(3000, 1, generator=generator)
    found = scores(H, torch.zeros_like(H), {"little": target(y)})
    assert found["linear"]["little"] > 0.02
    assert found["network"]["little"] > found["linear"]["little"] - 0.005


def test_a_network_finds_products_beside_what_is_linear(generator, monkeypatch):
    """R² = 0.44 of it is linear, as much again a product, and 600 rows are few for 32 features."""
    monkeypatch.setattr(network, "WIDTH", 512)
    X, w = torch.randn(1200, 32, generator=generator), torch.randn(32, 1, generator=generator)
    y = X @ w / w.norm() + X[:, :1] * X[:, 1:2] + 0.5 * torch.randn(1200, 1, generator=generator)
    linear, mixed = (
        parameter_r2(X[:, ::2], X[:, 1::2], {"": target(y)}, decoder)[""] for decoder in ("linear", "network")
    )
    assert 0.3 < linear < 0.5
    assert mixed > 0.6


def test_noise_is_decoded_by_none_and_fitted_by_none(generator):
    """Beside a target that is worth learning, which keeps the network training."""
    H, theta = torch.randn(800, 8, generator=generator), torch.randn(800, 1, generator=generator)
    noise = {f"noise {i}": target(torch.randn(800, generator=generator)) for i in range(10)}
    found = scores(H, H + theta, noise | {"shift": target(theta)})
    for by in found.values():
        assert by["shift"] > 0.9
        assert all(-0.05 < by[name] < 0.03 for name in noise)


@pytest.mark.parametrize("n", range(2, 7))
def test_a_few_rows_are_left_to_the_regression(n, generator):
    X, Y, known = torch.randn(n, 3, generator=generator), torch.randn(n, 1), torch.ones(n, 1, dtype=torch.bool)
    others = torch.randn(4, 3, generator=generator)
    found, regression = network_predictions(X, Y, known, others), ridge_predictions(X, Y, known, others)
    assert found.isfinite().all()
    if n < 4:
        torch.testing.assert_close(found, regression)


def test_a_target_that_only_held_out_rows_show_is_left_to_the_regression(generator):
    X, others = torch.randn(200, 3, generator=generator), torch.randn(50, 3, generator=generator)
    known = (torch.arange(200) >= 180)[:, None]  # the tenth by which the network is stopped
    found = network_predictions(X, X[:, :1], known, others)
    torch.testing.assert_close(found.float(), others[:, :1], atol=0.02, rtol=0)


def test_the_seed_of_the_network_decides_and_the_global_one_is_left_alone(generator):
    X, state = torch.randn(500, 2, generator=generator), torch.get_rng_state()
    Y, known = X[:, :1] * X[:, 1:], torch.ones(500, 1, dtype=torch.bool)
    once, again, other = (network_predictions(X, Y, known, X[:9], seed) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(state, torch.get_rng_state())


def test_what_gray_hides_is_not_asked_for(generator):
    """An oracle that sees the whole augmentation but for the hue and the saturation of gray pictures."""
    p = ImagePolicy(size=8, gray=0.2).sample(2000, (8, 8), generator)
    targets = parameter_targets(p)
    seen = torch.cat([p.brightness[:, None], torch.where(p.gray, 0, p.hue)[:, None], p.gray[:, None]], dim=1)
    found = scores(torch.randn(2000, 3, generator=generator), seen, targets)
    assert min(by["hue"] for by in found.values()) > 0.99
    everywhere = Target(targets["hue"].values, torch.ones(2000, dtype=torch.bool))
    assert parameter_r2(seen, seen, {"hue": everywhere}, "linear")["hue"] < 0.85


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({"gray": torch.tensor([True, False])}, {"hue", "saturation"}),
        ({"saturation": torch.tensor([0.0, 0.5])}, {"hue"}),
        ({"contrast": torch.tensor([0.0, 0.5])}, {"hue", "saturation"}),
        ({"brightness": torch.tensor([0.0, 0.5])}, {"hue", "saturation", "contrast"}),
        ({"solarize": torch.tensor([True, False])}, set()),
    ],
)
def test_a_parameter_is_known_where_the_picture_shows_it(changes, hidden, generator):
    """A picture that hides the hue has no color, and one that hides the contrast is black."""
    p = dataclasses.replace(ImagePolicy(size=8, gray=0.0).sample(2, (8, 8), generator), **changes)
    for name, target in parameter_targets(p).items():
        assert target.known.tolist() == [name not in hidden, True], name
    picture, other = apply(torch.rand(2, 3, 8, 8, generator=generator), p)
    assert ((picture.amax(0) - picture.amin(0)).max() < 1e-5) == ("hue" in hidden)
    assert (picture.max() < 1e-5) == ("contrast" in hidden)
    assert (other.amax(0) - other.amin(0)).max() > 0.01
