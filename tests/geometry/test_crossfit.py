import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from care.geometry import (
    crossfit_linear,
    crossfit_predictions,
    crossfit_rotations,
    principal_axes,
    skew,
    solve_wahba,
)
from care.geometry.crossfit import PENALTIES, halves


def cloud(n, d, seed=0):
    """Unit vectors in d dimensions that use some of them more than others."""
    points = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(points * torch.linspace(1, 0.1, d), dim=1)


def noise(like, seed):
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)


def expected_map(F, F_a):
    """The ridge regression of least GCV error, penalty by penalty: scikit-learn's fit, and the literal hat matrix."""
    scale, errors, maps = np.linalg.eigvalsh(F.T @ F).mean(), [], []
    for penalty in PENALTIES:
        fitted = Ridge(alpha=penalty * scale, fit_intercept=False).fit(F, F_a - F)
        hat = F @ np.linalg.inv(F.T @ F + penalty * scale * np.eye(F.shape[1])) @ F.T
        errors.append(((F_a - F - fitted.predict(F)) ** 2).sum() / (1 - np.trace(hat) / len(F)) ** 2)
        maps.append(np.eye(F.shape[1]) + fitted.coef_)
    return maps[int(np.argmin(errors))], int(np.argmin(errors))


@pytest.mark.parametrize(("strength", "penalized"), [(0.01, False), (0.3, True), (3.0, True)])
def test_linear_maps_are_those_of_scikit_learn_with_the_penalty_of_least_gcv_error(strength, penalized):
    F = cloud(120, 10)
    F_a = F @ (torch.eye(10) + 0.3 * noise(torch.empty(10, 10).double(), 1)) + strength * noise(F, 2)
    found = crossfit_linear(F, F_a)
    for rows, M in zip(halves(F), found, strict=True):
        expected, chosen = expected_map(F[rows].numpy(), F_a[rows].numpy())
        assert M.numpy() == pytest.approx(expected, abs=1e-9)
        assert (chosen > 3) == penalized


def test_a_rotation_is_a_linear_map():
    F, rotation = cloud(400, 8), torch.linalg.matrix_exp(skew(noise(torch.empty(8, 8).double(), 3)))
    F_a = F @ rotation.mT
    assert crossfit_linear(F, F_a)[0].numpy() == pytest.approx(solve_wahba(F, F_a).numpy(), abs=1e-4)
    assert crossfit_rotations(F, F_a)[0].numpy() == pytest.approx(rotation.numpy(), abs=1e-5)


def test_rotations_are_shrunk_as_the_linear_maps_are():
    """The nearest rotation to M̂ FᵀF of the half: the literal polar decomposition."""
    F = cloud(60, 6)
    F_a = F + 0.3 * noise(F, 1)
    for rows, M, R in zip(halves(F), crossfit_linear(F, F_a), crossfit_rotations(F, F_a, "O"), strict=True):
        U, _, Vh = torch.linalg.svd(M @ F[rows].T @ F[rows])
        assert R.numpy() == pytest.approx((U @ Vh).numpy(), abs=1e-8)


def test_predictions_are_made_with_the_map_of_the_other_half():
    F = cloud(31, 4)
    maps = crossfit_linear(F, F + 0.3 * noise(F, 1))
    predicted = crossfit_predictions(F, maps)
    for rows, M in zip(reversed(halves(F)), maps, strict=True):
        assert torch.allclose(predicted[rows], F[rows] @ M.T)


@pytest.mark.parametrize("n", [4, 20, 60, 100])
def test_few_points_are_not_fitted_blindly(n):
    """What noise adds cannot be known: with fewer points than dimensions, too, the maps stay near doing nothing."""
    F = cloud(n, 50)
    F_a = F + 0.01 * noise(F, 4)
    left = (crossfit_predictions(F, crossfit_linear(F, F_a)) - F_a).square().sum()
    assert left < 1.1 * (F_a - F).square().sum()


def test_principal_axes_are_found_once_for_several_augmentations():
    F = cloud(60, 6).float()
    F_a = torch.stack([F + 0.1 * noise(F, seed) for seed in (5, 6)])
    together, axes = crossfit_linear(F, F_a), principal_axes(F)
    for one, maps in zip(F_a, together, strict=True):
        assert torch.allclose(crossfit_linear(F, one, axes), maps, atol=1e-12)
        assert torch.allclose(crossfit_linear(F, one), maps, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 8, 1000])
def test_halves_are_all_rows_once(n):
    first, second = (half.tolist() for half in halves(torch.zeros(n, 3)))
    assert sorted(first + second) == list(range(n))
    assert len(first) - len(second) == n % 2


@pytest.mark.parametrize("classes", [2, 3, 5, 8, 10, 13, 64, 100])
def test_halves_have_a_fair_share_of_every_class(classes):
    """A binomial count of 100 is within 30 … 70 but once in 10,000 times; classes that go round, and sorted ones."""
    for labels in (torch.arange(100 * classes) % classes, torch.arange(100 * classes) // 100):
        first, _ = halves(torch.zeros(100 * classes, 3))
        share = labels[first].bincount(minlength=classes)
        assert share.min() >= 30
        assert share.max() <= 70
