"""The map from augmentations to rotations: the properties that it has by construction, and its file."""

import dataclasses

import pytest
import torch

from care.augment import PointPolicy, simclr
from care.augment.coordinates import IMAGE_NAMES
from care.steer import Steering, load, save
from steer.planted import skew_matrix, unit


@pytest.fixture
def steering(generator):
    """Turns 6 of 9 dimensions."""
    basis = torch.linalg.qr(torch.randn(9, 6, generator=generator)).Q
    return Steering(IMAGE_NAMES, 1.0, basis, torch.stack([skew_matrix(generator, 6) for _ in IMAGE_NAMES]))


@pytest.fixture
def curved(steering, generator):
    """The same with generators for two products."""
    more = torch.stack([skew_matrix(generator, 6) for _ in range(2)])
    pairs = (("brightness", "brightness"), ("contrast", "hue"))
    return dataclasses.replace(steering, generators=torch.cat([steering.generators, more]), products=pairs)


@pytest.fixture
def augmentations(generator):
    return simclr(32).sample(5, (32, 32), generator)


def test_rotations_are_exponentials_in_all_dimensions(steering, augmentations):
    """As if there was no basis: the exponential of the literal sum of d × d generators."""
    large = [steering.basis @ A @ steering.basis.mT for A in steering.generators]
    for R, theta in zip(steering.rotation(augmentations), steering.coordinates(augmentations), strict=True):
        literal = torch.linalg.matrix_exp(sum(t * A for t, A in zip(theta, large, strict=True)))
        torch.testing.assert_close(R, literal, atol=1e-5, rtol=0)


def test_products_are_the_literal_ones(curved, augmentations, generator):
    theta, at = curved.coordinates(augmentations), IMAGE_NAMES.index
    B = theta[:, at("brightness")] ** 2, theta[:, at("contrast")] * theta[:, at("hue")]
    z = unit(generator, 5, 9)
    for i in range(5):
        terms = [*theta[i], B[0][i], B[1][i]]
        large = curved.basis @ sum(t * A for t, A in zip(terms, curved.generators, strict=True)) @ curved.basis.mT
        R = torch.linalg.matrix_exp(large)
        torch.testing.assert_close(curved.turn(z, augmentations[i]), z @ R.mT, atol=1e-5, rtol=0)
        torch.testing.assert_close(curved.canonicalize(z, augmentations[i]), z @ R, atol=1e-5, rtol=0)


def test_with_products_the_hue_alone_is_a_subgroup_and_brightness_is_not(curved, generator):
    z = unit(generator, 4, 9)
    for name, subgroup in (("hue", True), ("contrast", True), ("brightness", False)):
        theta = torch.zeros(1, len(IMAGE_NAMES))
        theta[0, IMAGE_NAMES.index(name)] = 1.0
        twice = curved.turn_by(curved.turn_by(z, 0.3 * theta), 0.45 * theta)
        assert ((twice - curved.turn_by(z, 0.75 * theta)).abs().max() < 1e-5) == subgroup


@pytest.mark.parametrize("kind", ["steering", "curved"])
def test_rotations_are_rotations(kind, request, augmentations):
    steering = request.getfixturevalue(kind)
    R = steering.rotation(augmentations)
    torch.testing.assert_close(R @ R.mT, torch.eye(9).expand(5, 9, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.linalg.det(R), torch.ones(5), atol=1e-5, rtol=0)


def test_no_augmentation_is_exactly_no_rotation(steering, generator):
    still = simclr(32).unchanged(2, (32, 32))
    z = unit(generator, 2, 9)
    assert steering.rotation(still).equal(torch.eye(9).expand(2, 9, 9))
    assert steering.turn(z, still).equal(z)


def test_lines_of_coordinates_are_subgroups(steering, generator):
    theta, z = torch.randn(1, len(IMAGE_NAMES), generator=generator), unit(generator, 4, 9)
    twice = steering.turn_by(steering.turn_by(z, 0.3 * theta), 0.45 * theta)
    torch.testing.assert_close(twice, steering.turn_by(z, 0.75 * theta), atol=1e-5, rtol=0)


def test_turning_is_multiplying_and_the_inverse_undoes_it(steering, augmentations, generator):
    z = unit(generator, 5, 9)
    R = steering.rotation(augmentations)
    torch.testing.assert_close(steering.turn(z, augmentations), (R @ z[:, :, None])[:, :, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(steering.turn(z, augmentations[2]), z @ R[2].mT, atol=1e-5, rtol=0)
    torch.testing.assert_close(steering.inverse(z, augmentations[2]), z @ R[2], atol=1e-5, rtol=0)
    there = steering.turn(z, augmentations)
    torch.testing.assert_close(steering.canonicalize(there, augmentations), z, atol=1e-5, rtol=0)


def test_what_does_not_fit_is_refused(steering, augmentations, generator, unchecked):
    with pytest.raises(ValueError, match="3 embeddings cannot be turned by 5 augmentations: pass 1 or 3"):
        steering.turn(unit(generator, 3, 9), augmentations)
    with pytest.raises(ValueError, match="is for augmentations by x, y, scale"):
        steering.rotation(PointPolicy().sample(1, (4,), generator))


@pytest.mark.parametrize("kind", ["steering", "curved"])
def test_a_file_gives_the_same_steering(kind, request, tmp_path):
    steering, file = request.getfixturevalue(kind), tmp_path / "steering.safetensors"
    save(dataclasses.replace(steering, center=0.875, output="whole"), str(file))
    again = load(str(file))
    assert (again.names, again.center, again.products) == (steering.names, 0.875, steering.products)
    assert again.output == "whole"
    assert again.basis.equal(steering.basis)
    assert again.generators.equal(steering.generators)


def test_a_damaged_file_is_refused(steering, tmp_path):
    file = tmp_path / "steering.safetensors"
    with pytest.raises(ValueError, match="does not exist: care steer"):
        load(file)
    save(steering, file)
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        load(file)
