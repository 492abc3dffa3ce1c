"""The map from augmentations to rotations: the properties that it has by construction, and its file."""

import dataclasses

import pytest
import torch

from care.augment import PointPolicy, simclr
from care.augment.coordinates import IMAGE_NAMES
from care.steer import LearnedRotation, load, save
from steer.planted import skew_matrix, unit


@pytest.fixture
def rotation(generator):
    """Rotates 6 of 9 dimensions."""
    basis = torch.linalg.qr(torch.randn(9, 6, generator=generator)).Q
    return LearnedRotation(IMAGE_NAMES, 1.0, basis, torch.stack([skew_matrix(generator, 6) for _ in IMAGE_NAMES]))


@pytest.fixture
def curved(rotation, generator):
    """The same with generators for two products."""
    more = torch.stack([skew_matrix(generator, 6) for _ in range(2)])
    pairs = (("brightness", "brightness"), ("contrast", "hue"))
    return dataclasses.replace(rotation, generators=torch.cat([rotation.generators, more]), products=pairs)


@pytest.fixture
def augmentations(generator):
    return simclr(32).sample(5, (32, 32), generator)


def test_rotations_are_exponentials_in_all_dimensions(rotation, augmentations):
    """As if there was no basis: the exponential of the literal sum of d × d generators."""
    large = [rotation.basis @ A @ rotation.basis.mT for A in rotation.generators]
    for R, theta in zip(rotation.matrix(augmentations), rotation.coordinates(augmentations), strict=True):
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
        torch.testing.assert_close(curved.rotate(z, augmentations[i]), z @ R.mT, atol=1e-5, rtol=0)
        torch.testing.assert_close(curved.canonicalize(z, augmentations[i]), z @ R, atol=1e-5, rtol=0)


def test_with_products_the_hue_alone_is_a_subgroup_and_brightness_is_not(curved, generator):
    z = unit(generator, 4, 9)
    for name, subgroup in (("hue", True), ("contrast", True), ("brightness", False)):
        theta = torch.zeros(1, len(IMAGE_NAMES))
        theta[0, IMAGE_NAMES.index(name)] = 1.0
        twice = curved.rotate_by(curved.rotate_by(z, 0.3 * theta), 0.45 * theta)
        assert ((twice - curved.rotate_by(z, 0.75 * theta)).abs().max() < 1e-5) == subgroup


@pytest.mark.parametrize("kind", ["rotation", "curved"])
def test_rotations_are_rotations(kind, request, augmentations):
    rotation = request.getfixturevalue(kind)
    R = rotation.matrix(augmentations)
    torch.testing.assert_close(R @ R.mT, torch.eye(9).expand(5, 9, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.linalg.det(R), torch.ones(5), atol=1e-5, rtol=0)


def test_no_augmentation_is_exactly_no_rotation(rotation, generator):
    unchanged = simclr(32).unchanged(2, (32, 32))
    z = unit(generator, 2, 9)
    assert rotation.matrix(unchanged).equal(torch.eye(9).expand(2, 9, 9))
    assert rotation.rotate(z, unchanged).equal(z)


def test_lines_of_coordinates_are_subgroups(rotation, generator):
    theta, z = torch.randn(1, len(IMAGE_NAMES), generator=generator), unit(generator, 4, 9)
    twice = rotation.rotate_by(rotation.rotate_by(z, 0.3 * theta), 0.45 * theta)
    torch.testing.assert_close(twice, rotation.rotate_by(z, 0.75 * theta), atol=1e-5, rtol=0)


def test_rotating_is_multiplying_and_canonicalizing_undoes_it(rotation, augmentations, generator):
    z = unit(generator, 5, 9)
    R = rotation.matrix(augmentations)
    torch.testing.assert_close(rotation.rotate(z, augmentations), (R @ z[:, :, None])[:, :, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation.rotate(z, augmentations[2]), z @ R[2].mT, atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation.canonicalize(z, augmentations[2]), z @ R[2], atol=1e-5, rtol=0)
    there = rotation.rotate(z, augmentations)
    torch.testing.assert_close(rotation.canonicalize(there, augmentations), z, atol=1e-5, rtol=0)


def test_what_does_not_fit_is_refused(rotation, augmentations, generator, unchecked):
    with pytest.raises(ValueError, match="3 embeddings cannot be rotated by 5 augmentations: pass 1 or 3"):
        rotation.rotate(unit(generator, 3, 9), augmentations)
    with pytest.raises(ValueError, match="is for augmentations by x, y, scale"):
        rotation.matrix(PointPolicy().sample(1, (4,), generator))


@pytest.mark.parametrize("kind", ["rotation", "curved"])
def test_a_file_gives_the_same_rotation(kind, request, tmp_path):
    rotation, file = request.getfixturevalue(kind), tmp_path / "rotation.safetensors"
    save(dataclasses.replace(rotation, center=0.875, output="equivariant"), str(file))
    again = load(str(file))
    assert (again.names, again.center, again.products) == (rotation.names, 0.875, rotation.products)
    assert again.output == "equivariant"
    assert again.basis.equal(rotation.basis)
    assert again.generators.equal(rotation.generators)


def test_a_damaged_file_is_refused(rotation, tmp_path):
    file = tmp_path / "rotation.safetensors"
    with pytest.raises(ValueError, match="does not exist: care steer"):
        load(file)
    save(rotation, file)
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        load(file)
