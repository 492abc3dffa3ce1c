import math

import literal
import pytest
import torch
from scipy.special import i0

from care.geometry import Minkowski
from care.losses import (
    BYOL,
    CARE,
    BarlowTwins,
    InfoNCE,
    Invariance,
    QueueInfoNCE,
    Uniformity,
    VICReg,
    equivariance,
    info_nce,
    orbit_uniformity,
    slice_uniformity,
    uniformity,
)


@pytest.fixture
def views(generator):
    return torch.randn(4, 16, 6, generator=generator, dtype=torch.float64)


def test_care_is_info_nce_plus_weighted_equivariance(views):
    z1, z2, e1, e2 = views
    loss = CARE(InfoNCE(0.5), weight=3.0, chunks=4)((z1, z2), (e1, e2))
    expected = literal.info_nce(z1, z2, 0.5) + 3.0 * literal.equivariance(e1, e2, 4, next(iter(literal.BILINEAR)))
    assert loss.item() == pytest.approx(expected)


def test_what_turns_can_have_coordinates_of_its_own(views):
    """InfoNCE of the first four, the others of the last two: neither moves what the other sees."""
    z1, z2, e1, e2 = views
    loss = CARE(InfoNCE(0.5), weight=3.0, chunks=4, turned=2, orbit=0.7)
    expected = literal.info_nce(z1[:, :4], z2[:, :4], 0.5) + literal.slice_uniformity(e1[:, 4:], e2[:, 4:], 4)
    expected += 3.0 * literal.equivariance(e1[:, 4:], e2[:, 4:], 4, next(iter(literal.BILINEAR)))
    without = CARE(InfoNCE(0.5), weight=3.0, chunks=4, turned=2, orbit=0.0)
    assert without((z1, z2), (e1, e2)).item() == pytest.approx(expected)
    expected += 0.7 * literal.orbit_uniformity(e1[:, 4:], e2[:, 4:], 4)
    assert loss((z1, z2), (e1, e2)).item() == pytest.approx(expected)
    lighter = CARE(InfoNCE(0.5), weight=3.0, chunks=4, turned=2, orbit=0.7, turning=0.1)((z1, z2), (e1, e2))
    compared = literal.info_nce(z1[:, :4], z2[:, :4], 0.5)
    assert lighter.item() == pytest.approx(compared + 0.1 * (expected - compared))
    z = views.clone().requires_grad_()
    loss.terms((z[0], z[1]), (z[2], z[3]))["siamese"].backward()
    assert z.grad[:2, :, :4].abs().min() > 0
    assert not z.grad[:, :, 4:].any()


def test_telling_the_augmentation_alone_is_the_worst_that_a_slice_can_do(generator):
    """A point for each augmentation: angles are kept, and L_unif is as small as can be; L_slice is not deceived."""
    points = torch.eye(8, dtype=torch.float64).repeat_interleave(16, dim=0)  # 8 chunks of 16 images
    others = points.roll(16, dims=0)
    assert equivariance(points, others, chunks=8).item() == 0
    assert uniformity(points, others).item() < 0.25
    assert slice_uniformity(points, others, chunks=8).item() == pytest.approx(1)
    spread = torch.randn(128, 8, generator=generator, dtype=torch.float64)
    assert slice_uniformity(spread, spread.roll(1, dims=0), chunks=8).item() < 0.2


def test_standing_still_is_the_worst_that_an_orbit_can_do(generator):
    """The equivariance loss is 0 for an encoder that ignores augmentations; L_orbit tells it from one that turns."""
    angle = 2 * torch.pi * torch.arange(3600, dtype=torch.float64) / 3600
    around = torch.stack([angle.cos(), angle.sin()], dim=1)
    still = around[:1].expand_as(around)
    assert equivariance(still, still, chunks=1).item() == equivariance(around, around, chunks=1).item() == 0
    assert orbit_uniformity(still, still).item() == pytest.approx(1)
    everywhere = math.log(i0(1))  # log of the mean of exp(cos φ) over a circle
    assert orbit_uniformity(still, around).item() == pytest.approx(everywhere)
    near = around + torch.randn(3600, 2, generator=generator, dtype=torch.float64) / 10
    assert everywhere < orbit_uniformity(around, near).item() < 1


ABLATIONS = {
    "invariance": (Invariance(), 0.0),
    "equivariance": (None, 1.0),
    "uniformity": (Uniformity(), 0.0),
    "uniformity + equivariance": (Uniformity(), 1.0),
    "InfoNCE": (InfoNCE(), 0.0),
    "CARE": (InfoNCE(), 1.0),
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_six_ablations_are_settings(name, views):
    z1, z2, e1, e2 = views
    siamese, weight = ABLATIONS[name]
    care = CARE(siamese, weight, chunks=4)
    expected = (siamese(z1, z2) if siamese else 0) + weight * equivariance(e1, e2, 4)
    torch.testing.assert_close(care((z1, z2), (e1, e2)), expected)
    assert set(care.terms((z1, z2), (e1, e2))) == {
        *(["siamese"] if siamese else []),
        *(["equivariance"] if weight else []),
    }


@pytest.mark.parametrize(("siamese", "count"), [(BarlowTwins(), 2), (VICReg(), 2), (BYOL(), 4), (QueueInfoNCE(), 3)])
def test_other_siamese_losses_take_the_place_of_info_nce(siamese, count, views, generator):
    z = torch.randn(count, 16, 6, generator=generator, dtype=torch.float64)
    loss = CARE(siamese, weight=2.0, chunks=4)(tuple(z), tuple(views[2:]))
    torch.testing.assert_close(loss, siamese(*z) + 2.0 * equivariance(*views[2:], chunks=4))


def test_another_form(views):
    z1, z2, e1, e2 = views
    loss = CARE(InfoNCE(), weight=1.0, chunks=2, form=Minkowski())((z1, z2), (e1, e2))
    torch.testing.assert_close(loss, info_nce(z1, z2) + equivariance(e1, e2, 2, Minkowski()))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        CARE(InfoNCE(), weight=-1.0, chunks=4)
    with pytest.raises(ValueError, match="nothing to train"):
        CARE(None, weight=0.0, chunks=4)
    with pytest.raises(ValueError, match="must not be negative, nor go with a steering loss"):
        CARE(InfoNCE(), weight=1.0, chunks=4, turned=-1)
    with pytest.raises(ValueError, match="must not be negative, nor go with a steering loss"):
        CARE(InfoNCE(), weight=1.0, chunks=4, steering_weight=1.0, turned=2)
    with pytest.raises(ValueError, match="weight of the orbit loss must not be negative, got -1"):
        CARE(InfoNCE(), weight=1.0, chunks=4, turned=2, orbit=-1.0)
    with pytest.raises(ValueError, match="turning must be greater than 0, got 0"):
        CARE(InfoNCE(), weight=1.0, chunks=4, turned=2, turning=0.0)
    with pytest.raises(ValueError, match="6 turned coordinates of 6 leave none to compare"):
        CARE(InfoNCE(), weight=1.0, chunks=4, turned=6)(tuple(torch.randn(2, 16, 6)), tuple(torch.randn(2, 16, 6)))
