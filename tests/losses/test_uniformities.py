"""L_slice and L_orbit: what each of them keeps a split embedding from."""

import math

import pytest
import torch
from scipy.special import i0

from care.losses import equivariance, orbit_uniformity, slice_uniformity, uniformity


def test_one_point_for_each_augmentation_is_the_worst_for_a_slice(generator):
    """A point for each augmentation: angles are kept, and L_unif is as small as can be; L_slice is not deceived."""
    points = torch.eye(8, dtype=torch.float64).repeat_interleave(16, dim=0)  # 8 chunks of 16 images
    others = points.roll(16, dims=0)
    assert equivariance(points, others, chunks=8).item() == 0
    assert uniformity(points, others).item() < 0.25
    assert slice_uniformity(points, others, chunks=8).item() == pytest.approx(1)
    spread = torch.randn(128, 8, generator=generator, dtype=torch.float64)
    assert slice_uniformity(spread, spread.roll(1, dims=0), chunks=8).item() < 0.2


def test_one_point_for_each_image_is_the_worst_for_an_orbit(generator):
    """The equivariance loss is 0 for an encoder that ignores augmentations; L_orbit is not."""
    angle = 2 * torch.pi * torch.arange(3600, dtype=torch.float64) / 3600
    around = torch.stack([angle.cos(), angle.sin()], dim=1)
    still = around[:1].expand_as(around)
    assert equivariance(still, still, chunks=1).item() == equivariance(around, around, chunks=1).item() == 0
    assert orbit_uniformity(still, still).item() == pytest.approx(1)
    everywhere = math.log(i0(1))  # log of the mean of exp(cos φ) over a circle
    assert orbit_uniformity(still, around).item() == pytest.approx(everywhere)
    near = around + torch.randn(3600, 2, generator=generator, dtype=torch.float64) / 10
    assert everywhere < orbit_uniformity(around, near).item() < 1
