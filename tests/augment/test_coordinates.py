"""Coordinates of augmentations against SciPy, against pictures, and against the boxes they came from."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from care.augment import ImagePolicy, PointPolicy, apply, coordinate_names, coordinates, identity, simclr
from care.augment.coordinates import rotation_vector
from care.augment.values import Parameters


@pytest.mark.parametrize("input_shape", [(32, 32), (48, 31), (33, 64)])
@pytest.mark.parametrize("center", [1.0, 0.875])
def test_the_unaugmented_view_is_zero(input_shape, center):
    policy = ImagePolicy(size=24, center=center)
    assert not coordinates(policy.unchanged(3, input_shape), center).any()
    assert not coordinates(PointPolicy().unchanged(3, (5,))).any()


def test_every_column_has_a_name(generator):
    images, clouds = simclr(32).sample(7, (32, 32), generator), PointPolicy().sample(7, (5,), generator)
    for drawn in (images, clouds):
        assert coordinates(drawn).shape == (7, len(coordinate_names(drawn)))
        assert coordinates(drawn).isfinite().all()


def test_rotation_vectors_are_scipys(generator):
    angles = np.array([1e-9, 1e-5, 0.3, 1.7, 3.0, math.pi - 1e-4, math.pi - 1e-7])
    axes = torch.nn.functional.normalize(torch.randn(7, 3, generator=generator).double(), dim=1).numpy()
    found = rotation_vector(torch.from_numpy(Rotation.from_rotvec(axes * angles[:, None]).as_matrix()))
    np.testing.assert_allclose(found, axes * angles[:, None], rtol=1e-6, atol=1e-6)
    drawn = PointPolicy().sample(500, (1,), generator).rotation
    np.testing.assert_allclose(rotation_vector(drawn), Rotation.from_matrix(drawn.numpy()).as_rotvec(), atol=2e-3)


def test_a_crop_is_its_center_size_and_shape():
    p = identity(1, (40, 20), 16)
    box = dataclasses.replace(
        p, top=torch.tensor([10]), left=torch.tensor([0]), height=torch.tensor([10]), width=torch.tensor([5])
    )
    # The un-augmented view is the 20 × 20 square with its middle at row 20 and column 10.
    wanted = torch.tensor([(2.5 - 10) / 20, (15 - 20) / 20, math.log(50**0.5 / 20), math.log(0.5)])
    torch.testing.assert_close(coordinates(box)[0, :4], wanted)


@pytest.mark.parametrize(("name", "first", "second"), [("brightness", 0.8, 0.7), ("hue", 0.1, 0.25)])
def test_what_adds_up_gives_the_same_picture(generator, name, first, second):
    """Two operations in a row are the one whose coordinate is the sum of theirs."""
    images = torch.rand(4, 3, 8, 8, generator=generator)
    one, two = (dataclasses.replace(identity(1, (8, 8), 8), **{name: torch.tensor([v])}) for v in (first, second))
    total = coordinates(one) + coordinates(two)
    column = coordinate_names(one).index(name)
    value = total[:, column].exp() if name == "brightness" else total[:, column]
    both = dataclasses.replace(identity(1, (8, 8), 8), **{name: value})
    torch.testing.assert_close(
        apply(apply(images, one.repeat(4)), two.repeat(4)), apply(images, both.repeat(4)), atol=1e-5, rtol=0
    )


def test_variances_of_blurs_add_up():
    """The kernel of two blurs in a row is the convolution of theirs."""
    p = dataclasses.replace(identity(2, (16, 16), 16), blur=torch.ones(2).bool(), sigma=torch.tensor([0.6, 1.4]))
    p = dataclasses.replace(p, kernel_size=5)
    t = np.arange(-2, 3)
    kernels = [np.exp(-(t**2) / (2 * s**2)) / np.exp(-(t**2) / (2 * s**2)).sum() for s in (0.6, 1.4)]
    both, wide = np.convolve(*kernels), np.arange(-4, 5)
    blur = coordinates(p)[:, coordinate_names(p).index("blur")]
    assert blur.sum().item() == pytest.approx((both * wide**2).sum(), rel=1e-5)


def test_other_augmentations_are_refused():
    class Other(Parameters):
        def steps(self, index):
            return []

    with pytest.raises(ValueError, match="not Other"):
        coordinates(Other())
    with pytest.raises(ValueError, match="not Other"):
        coordinate_names(Other())
