import dataclasses

import numpy as np
import pytest
import scipy.spatial.transform
import scipy.stats
import torch

from care.augment import PointPolicy, apply
from care.augment.points import rotation_from_quaternion


def test_rotation_matrices_agree_with_scipy(generator):
    q = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    theirs = scipy.spatial.transform.Rotation.from_quat(q.numpy(), scalar_first=True).as_matrix()
    torch.testing.assert_close(rotation_from_quaternion(q), torch.tensor(theirs))


def test_rotations_are_haar(generator):
    """The angle of a Haar rotation has density (1 − cos θ)/π, and a fixed vector lands uniformly on the sphere."""
    R = PointPolicy().sample(10_000, (5,), generator).rotation.double()
    angle = torch.arccos(((R.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2).clamp(-1, 1))
    assert scipy.stats.kstest(angle, lambda t: (t - np.sin(t)) / np.pi).pvalue > 1e-4
    assert scipy.stats.kstest(R[:, 2, 0], scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-4
    torch.testing.assert_close(R @ R.mT, torch.eye(3, dtype=torch.float64).expand_as(R), atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.linalg.det(R), torch.ones(10_000, dtype=torch.float64), atol=1e-5, rtol=0)


def test_apply_is_the_literal_formula(generator):
    clouds = torch.randn(4, 6, 3, generator=generator)
    p = PointPolicy(scale=(0.5, 2.0), jitter=0.1).sample(4, (6,), generator)
    views = apply(clouds, p)
    for i in range(4):
        for k in range(6):
            literal = p.scale[i] * (p.rotation[i] @ clouds[i, k]) + p.jitter[i, k]
            torch.testing.assert_close(views[i, k], literal)


def test_scale_and_jitter_have_their_distributions(generator):
    p = PointPolicy(scale=(0.5, 2.0), jitter=0.1).sample(4000, (10,), generator)
    log = np.log(p.scale.double().numpy())
    assert scipy.stats.kstest(log, scipy.stats.uniform(np.log(0.5), np.log(4)).cdf).pvalue > 1e-4
    assert p.jitter.std().item() == pytest.approx(0.1, rel=0.02)


def test_identity_and_no_rotation(generator):
    clouds = torch.randn(8, 6, 3, generator=generator)
    assert torch.equal(apply(clouds, PointPolicy(identity=1.0, jitter=1.0).sample(8, (6,), generator)), clouds)
    assert torch.equal(apply(clouds, PointPolicy(rotate=False).sample(8, (6,), generator)), clouds)


def test_an_augmentation_in_words(generator):
    assert PointPolicy(identity=1.0).sample(1, (5,), generator).describe(0) == "identity"
    p = PointPolicy(scale=(2.0, 2.0), jitter=0.1).sample(1, (5,), generator)
    quarter = torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]])
    p = dataclasses.replace(p, rotation=quarter, jitter=torch.full((1, 5, 3), 0.1))
    assert p.describe(0) == "scale ×2.00, rotate 90°, jitter 0.100"


@pytest.mark.parametrize("setting", [{"scale": (0.0, 1.0)}, {"jitter": -1.0}, {"identity": 2.0}])
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        PointPolicy(**setting)
