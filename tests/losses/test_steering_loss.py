"""The steering loss against its formula, an image at a time, with torch's exponential."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from care.geometry import skew
from care.losses import steering

N, D, M, K = 12, 7, 4, 3


@pytest.fixture
def given(generator):
    """(z1, z2, θ of 3 chunks, θ' of 3 chunks, generators), all of order 1."""

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return normal(N, D), normal(N, D), normal(3, K), normal(3, K), skew(normal(K, M, M))


def rotation(theta, generators):
    R = torch.eye(D, dtype=torch.float64)
    R[:M, :M] = torch.linalg.matrix_exp(sum(t * A for t, A in zip(theta, generators, strict=True)))
    return R


def literal(z1, z2, theta1, theta2, generators):
    """mean_i ‖R(θ_i) R(θ'_i)ᵀ z'_i − z_i‖²."""
    total = 0.0
    for i in range(len(z1)):
        R1, R2 = (rotation(t[i * len(t) // len(z1)], generators) for t in (theta1, theta2))
        total += (R1 @ R2.T @ (z2[i] / z2[i].norm()) - z1[i] / z1[i].norm()).square().sum()
    return total / len(z1)


def test_it_is_its_formula(given):
    torch.testing.assert_close(steering(*given), literal(*given))


def test_gradient_is_that_of_the_formula(given):
    given = [tensor.requires_grad_() for tensor in given]
    ours, theirs = (torch.autograd.grad(loss(*given), given) for loss in (steering, literal))
    for a, b in zip(ours[:4], theirs[:4], strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(skew(ours[4]), skew(theirs[4]))  # the loss knows that generators are skew


@pytest.mark.parametrize("draws", [(1, 1), (3, N), (N, N)])
def test_the_batch_a_chunk_or_a_sample_may_share_an_augmentation(draws, given, generator):
    z1, z2, *_, A = given
    theta = [torch.randn(count, K, generator=generator, dtype=torch.float64) for count in draws]
    torch.testing.assert_close(steering(z1, z2, *theta, A), literal(z1, z2, *theta, A))


def test_embeddings_rotated_as_the_parameters_prescribe_have_no_loss(given):
    z, _, theta1, theta2, A = given
    views = [torch.stack([rotation(theta[i * 3 // N], A) @ z[i] for i in range(N)]) for theta in (theta1, theta2)]
    assert steering(*views, theta1, theta2, A) < 1e-20
    assert steering(*views, theta2, theta1, A) > 0.1


def test_half_precision_is_computed_in_full(given):
    half = [tensor.bfloat16() for tensor in given]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = steering(*half)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), literal(*(tensor.double() for tensor in half)), rtol=1e-5, atol=0)


def test_nothing_makes_the_host_wait():
    """Fake tensors have shapes but no values: code that would read a value off the GPU raises on them."""
    with FakeTensorMode():
        z, theta, A = (torch.empty(*shape, requires_grad=True) for shape in ((8, 6), (2, 3), (3, 4, 4)))
        steering(z, z, theta, theta, A).backward()


@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_told(given):
    z1, z2, theta1, theta2, A = given
    with pytest.raises(ValueError, match="11 embeddings cannot be divided evenly among 3 augmentations"):
        steering(z1[:11], z2[:11], theta1, theta2, A)
