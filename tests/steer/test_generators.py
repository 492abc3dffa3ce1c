"""Rotations and their generators against SciPy and the algebra of SO(3)."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import expm, logm

from care.geometry import exponential
from care.geometry.harmonics import harmonic_generators
from care.steer.generators import logarithms, procrustes_rotations, regressed_logarithms, rotations
from steer.planted import skew_matrix, unit


def test_rotations_are_exponentials_of_the_sum(generator):
    A = torch.stack([skew_matrix(generator, 6) for _ in range(3)])
    theta = torch.randn(4, 3, generator=generator)
    for R, t in zip(rotations(A, theta), theta, strict=True):
        literal = sum(float(x) * a.numpy().astype(float) for x, a in zip(t, A, strict=True))
        np.testing.assert_allclose(R, expm(literal), atol=2e-6)


def test_the_exponential_that_is_fitted_with_has_the_same_gradient(generator):
    A = torch.stack([3 * skew_matrix(generator, 6) for _ in range(2)]).requires_grad_()
    theta, C = torch.randn(4, 2, generator=generator), torch.randn(4, 6, 6, generator=generator)
    slow, fast = (
        torch.autograd.grad((rotations(A, theta, exp) * C).sum(), A)[0]
        for exp in (torch.linalg.matrix_exp, exponential)
    )
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


def test_logarithms_are_scipys(generator):
    A = torch.stack([skew_matrix(generator, 7) for _ in range(3)])
    R = torch.linalg.matrix_exp(A.double())
    for L, one in zip(logarithms(R), R, strict=True):
        np.testing.assert_allclose(L, logm(one.numpy()).real, atol=1e-9)
    torch.testing.assert_close(logarithms(torch.eye(5)[None]), torch.zeros(1, 5, 5))


def test_regressed_logarithms_recover_generators(generator):
    """With angles below π and generators that commute the logarithm is linear in θ."""
    A = skew_matrix(generator, 5)
    A = torch.stack([A, A @ A @ A])
    theta = torch.zeros(12, 3)
    theta[:, :2] = 0.3 * torch.randn(12, 2, generator=generator)
    F = unit(generator, 50, 5)
    R = rotations(A, theta[:, :2])
    found = regressed_logarithms(theta, R @ (F.mT @ F))
    torch.testing.assert_close(found[:2], A, atol=1e-3, rtol=0)
    assert not found[2].any()
    torch.testing.assert_close(procrustes_rotations(R @ (F.mT @ F)), R, atol=1e-4, rtol=0)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_harmonics_obey_the_algebra_of_rotations(degree):
    x, y, z = harmonic_generators(degree)
    torch.testing.assert_close(x, -x.mT)
    for a, b, c in ((x, y, z), (y, z, x), (z, x, y)):
        torch.testing.assert_close(a @ b - b @ a, c, atol=1e-12, rtol=0)
    casimir = -(x @ x + y @ y + z @ z)
    torch.testing.assert_close(casimir, degree * (degree + 1) * torch.eye(2 * degree + 1, dtype=torch.float64))
    turn = torch.linalg.matrix_exp(2 * math.pi * (0.6 * x + 0.8 * z))
    torch.testing.assert_close(turn, torch.eye(2 * degree + 1, dtype=torch.float64), atol=1e-10, rtol=0)
