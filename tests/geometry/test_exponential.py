"""The exponential of fixed cost against SciPy's."""

import pytest
import scipy.linalg
import torch

from care.geometry import exponential, skew


def skew_of_angle(largest, m, generator, dtype=torch.float64):
    """A skew matrix that rotates by `largest` radians, at most."""
    A = skew(torch.randn(3, m, m, generator=generator, dtype=dtype))
    return largest * A / torch.linalg.matrix_norm(A, 2)[:, None, None]


@pytest.mark.parametrize("largest", [0.0, 1e-3, 1.0, 9.5, 40.0])
@pytest.mark.parametrize("m", [2, 7, 64])
def test_it_is_the_exponential(largest, m, generator):
    X = skew_of_angle(max(largest, 1e-30), m, generator)
    expected = torch.stack([torch.from_numpy(scipy.linalg.expm(x.numpy())) for x in X])
    torch.testing.assert_close(exponential(X), expected, rtol=0, atol=1e-5 if largest > 10 else 1e-10)
    torch.testing.assert_close(exponential(X.float()), expected.float(), rtol=0, atol=2e-5)


def test_what_is_turned_keeps_its_length_in_single_precision(generator):
    R = exponential(skew_of_angle(40.0, 32, generator).float())
    torch.testing.assert_close(R @ R.mT, torch.eye(32).expand_as(R), rtol=0, atol=2e-5)


def test_its_gradient_is_that_of_torch(generator):
    X = skew_of_angle(3.0, 5, generator).requires_grad_()
    ours, theirs = (
        torch.autograd.grad(function(X)[:, 0, 1].sum(), X)[0] for function in (exponential, torch.linalg.matrix_exp)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
