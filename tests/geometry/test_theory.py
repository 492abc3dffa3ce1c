"""The propositions of the paper, on finite samples."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from care.geometry import Euclidean, composition_error, gram_error, solve_wahba, wahba_error


def sphere(n, d, generator):
    return Euclidean().embed(torch.randn(n, d, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize(("n", "d"), [(30, 6), (6, 6), (4, 6)])
def test_proposition_1_equal_angles_mean_one_rotation(n, d, generator):
    """Two factors of one Gram matrix, the second found without any rotation in sight, differ by one element of O(d)."""
    F = sphere(n, d, generator)
    values, vectors = torch.linalg.eigh(F @ F.T)
    rank = min(n, d)
    F_a = torch.nn.functional.pad(vectors[:, -rank:] * values[-rank:].clamp_min(0).sqrt(), (0, d - rank))
    assert gram_error(F, F_a) < 1e-20
    R_a = solve_wahba(F, F_a, "O")
    assert Euclidean().contains(R_a)
    torch.testing.assert_close(F @ R_a.T, F_a)


def test_proposition_1_is_about_o_not_so(generator):
    """A mirror keeps all angles, so L_equi = 0, and yet no element of SO(d) does the same: W_f over SO(d) sees it."""
    F = sphere(30, 3, generator)
    F_a = F * torch.tensor([1.0, 1.0, -1.0])
    assert gram_error(F, F_a) < 1e-30
    assert wahba_error(F, F_a, "O") < 1e-12
    assert wahba_error(F, F_a, "SO") > 1


def test_the_converse_unequal_angles_mean_no_rotation(generator):
    F = sphere(30, 6, generator)
    F_a = Euclidean().embed(F * torch.tensor([2.0, 1, 1, 1, 1, 1]))
    assert gram_error(F, F_a) > 1e-3
    assert wahba_error(F, F_a, "O") > 0.1


def quarter_turn(i, j):
    R = torch.eye(3, dtype=torch.float64)
    R[i, i] = R[j, j] = 0
    R[j, i], R[i, j] = 1, -1
    return R


def test_corollary_1_compositions_become_products(generator):
    F, R_a, R_b = sphere(30, 3, generator), quarter_turn(0, 1), quarter_turn(1, 2)
    F_a, F_b, F_ba = F @ R_a.T, F @ R_b.T, F @ R_a.T @ R_b.T
    rho_a, rho_b, rho_ba = (solve_wahba(F, G, "O") for G in (F_a, F_b, F_ba))
    torch.testing.assert_close(rho_ba, rho_b @ rho_a)
    assert composition_error(F, F_a, F_b, F_ba, "O") < 1e-11  # maps are shrunk by a millionth


def test_corollary_1_fails_when_the_embeddings_do_not_span():
    """All f(x) lie on one axis: a rotates it to the second, b∘a to the third, and b alone leaves it where it is.

    Every augmentation keeps all angles, but what b does to the second axis cannot be known from f(x) and f(b(x)).
    """
    F = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)[:, None] * torch.eye(3, dtype=torch.float64)[0]
    R_a, R_b = quarter_turn(0, 1), quarter_turn(1, 2)
    F_a, F_b, F_ba = F @ R_a.T, F @ R_b.T, F @ R_a.T @ R_b.T
    assert max(gram_error(F, G) for G in (F_a, F_b, F_ba)) < 1e-30
    rho_a, rho_b, rho_ba = (solve_wahba(F, G, "O") for G in (F_a, F_b, F_ba))
    assert (rho_ba - rho_b @ rho_a).norm() > 1
    assert composition_error(F, F_a, F_b, F_ba, "O") == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(2, 8),
    extra=st.integers(0, 20),
    noise=st.floats(-6, -1.5).map(lambda e: 10**e),
)
def test_nearly_equal_angles_mean_nearly_a_rotation(seed, d, extra, noise):
    """If Σ_ij (Gram difference)² ≤ ε⁴ and ‖F†‖ ε ≤ 1/√2, then W_f over O(d) ≤ (1 + √2) ‖F†‖ ε²."""
    generator = torch.Generator().manual_seed(seed)
    F = sphere(d + extra, d, generator)
    R = Euclidean().random_element(d, generator)
    F_a = Euclidean().embed(F @ R.T + noise * torch.randn(F.shape, generator=generator, dtype=torch.float64))
    epsilon_squared = (F_a @ F_a.T - F @ F.T).norm().item()
    pseudo_inverse = 1 / torch.linalg.svdvals(F)[-1].item()
    if pseudo_inverse * math.sqrt(epsilon_squared) <= 1 / math.sqrt(2):
        bound = (1 + math.sqrt(2)) * pseudo_inverse * epsilon_squared
        assert wahba_error(F, F_a, "O").item() <= bound + 1e-12
