"""The two ways to the nearest rotation: they must agree with SciPy, and with each other where points leave R open."""

import pytest
import scipy.linalg
import torch

from care.geometry.kabsch import kabsch, polar_by_products, polar_by_svd


def covariance(d, condition, generator, sign=1.0):
    """Singular values from 1 down to 1/condition, between random directions, with a determinant of that sign."""
    U, V = (torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q for _ in range(2))
    U[:, 0] *= sign * torch.linalg.det(U @ V.T).sign()
    return U @ torch.diag(torch.logspace(0, -torch.tensor(condition).log10(), d, dtype=torch.float64)) @ V.T


def gain(R, M):
    """tr(RᵀM), which is to be as large as can be."""
    return (R * M).sum((-2, -1))


@pytest.mark.parametrize("way", [polar_by_products, polar_by_svd])
@pytest.mark.parametrize("condition", [10.0, 1e4, 1e8])
@pytest.mark.parametrize("d", [2, 33, 160])
def test_the_orthogonal_factor_is_scipys(way, condition, d, generator):
    M = covariance(d, condition, generator)
    expected, _ = scipy.linalg.polar(M.numpy())
    torch.testing.assert_close(
        way(M, special=False), torch.from_numpy(expected), atol=1e-14 * condition + 1e-12, rtol=0
    )


@pytest.mark.parametrize("way", [polar_by_products, polar_by_svd])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("condition", [10.0, 1e8])
def test_a_special_factor_gives_up_the_smallest_singular_value_at_most(way, sign, condition, generator):
    M = covariance(48, condition, generator, sign)
    R = way(M, special=True)
    values = torch.from_numpy(scipy.linalg.svdvals(M.numpy()))
    best = values.sum() - (2 * values[-1] if sign < 0 else 0)
    torch.testing.assert_close(gain(R, M), best, rtol=1e-12, atol=0)
    assert torch.linalg.det(R) == pytest.approx(1)
    torch.testing.assert_close(R @ R.T, torch.eye(48, dtype=torch.float64))


def test_a_batch_may_hold_both_signs(generator):
    M = torch.stack([covariance(12, 100.0, generator, sign) for sign in (1.0, -1.0, -1.0)])
    torch.testing.assert_close(polar_by_products(M, special=True), polar_by_svd(M, special=True))


@pytest.mark.parametrize("special", [True, False])
def test_products_do_not_move_undetermined_directions(special, generator):
    """20 points in 64 dimensions: both ways must complete the rotation alike, by moving as little as possible."""
    F = torch.randn(20, 64, generator=generator, dtype=torch.float64)
    F_a = F + 0.3 * torch.randn(20, 64, generator=generator, dtype=torch.float64)
    M = F_a.T @ F
    M = M + 1e-11 * M.norm() * torch.eye(64, dtype=torch.float64)
    torch.testing.assert_close(polar_by_products(M, special), polar_by_svd(M, special), atol=1e-3, rtol=0)


def test_singular_values_that_products_cannot_reach_are_detected(generator):
    """A singular value of 0 stays 0: the result is not orthogonal, and `kabsch` looks."""
    M = covariance(8, 10.0, generator)
    M[:, 0] = 0
    R = polar_by_products(M, special=False)
    assert (R.T @ R - torch.eye(8)).abs().max() > 0.5
    assert (kabsch(M, special=False).T @ kabsch(M, special=False) - torch.eye(8)).abs().max() < 1e-12
