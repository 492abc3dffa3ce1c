import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.spatial.transform
import torch

from care.geometry import Euclidean, Minkowski, Symplectic, solve_wahba, squared_wahba, wahba_error
from care.geometry.forms import boost
from care.geometry.symplectic import generalized_polar


def points(n, d, generator, dtype=torch.float64):
    return Euclidean().embed(torch.randn(n, d, generator=generator, dtype=torch.float64)).to(dtype)


def rotation(d, generator, determinant=1):
    Q = Euclidean().random_element(d, generator)
    return Q if torch.linalg.det(Q) * determinant > 0 else Q * torch.tensor([-1.0] + [1.0] * (d - 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [2, 3, 16, 128])
def test_planted_rotation_is_recovered(d, dtype, generator):
    F = points(4 * d, d, generator, dtype)
    for determinant, groups in ((1, ("SO", "O")), (-1, ("O",))):
        R = rotation(d, generator, determinant).to(dtype)
        for group in groups:
            tolerance = 1e-4 if dtype == torch.float32 else 1e-10
            torch.testing.assert_close(solve_wahba(F, F @ R.T, group), R, atol=tolerance, rtol=0)


def test_orthogonal_solution_agrees_with_scipy(generator):
    A, B = points(50, 7, generator), points(50, 7, generator)
    expected, _ = scipy.linalg.orthogonal_procrustes(A.numpy(), B.numpy())
    torch.testing.assert_close(solve_wahba(A, B, "O"), torch.tensor(expected).T)


@pytest.mark.parametrize("seed", range(6))
def test_special_solution_agrees_with_scipy(seed):
    generator = torch.Generator().manual_seed(seed)
    A, B = points(9, 3, generator), points(9, 3, generator)
    R, rssd = scipy.spatial.transform.Rotation.align_vectors(B.numpy(), A.numpy())
    torch.testing.assert_close(solve_wahba(A, B, "SO"), torch.tensor(R.as_matrix()), atol=1e-8, rtol=0)
    assert wahba_error(A, B).item() == pytest.approx(rssd)


def test_no_rotation_nearby_does_better(generator):
    A, B = points(30, 5, generator), points(30, 5, generator)
    for group in ("SO", "O"):
        best, R = wahba_error(A, B, group), solve_wahba(A, B, group)
        for _ in range(50):
            W = 1e-2 * torch.randn(5, 5, generator=generator, dtype=torch.float64)
            other = R @ torch.linalg.matrix_exp(W - W.T)
            assert (A @ other.T - B).norm() > best


def test_a_reflection_is_out_of_reach_for_so(generator):
    F = points(40, 4, generator)
    reflected = F * torch.tensor([-1.0, 1, 1, 1])
    assert wahba_error(F, reflected, "O") < 1e-10
    assert wahba_error(F, reflected, "SO") > 1
    assert torch.linalg.det(solve_wahba(F, reflected, "SO")) == pytest.approx(1)


@pytest.mark.parametrize("group", ["SO", "O"])
@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize(("n", "d", "rank"), [(3, 8, 3), (1, 8, 1), (40, 8, 5), (40, 8, 1), (7, 8, 7), (5, 3, 2)])
def test_undetermined_directions(n, d, rank, determinant, group, generator):
    """Rank-deficient points are fitted exactly, by a member of the group that moves the rest as little as possible."""
    basis = rotation(d, generator)[:rank]
    F = points(n, rank, generator) @ basis
    R = rotation(d, generator, determinant)
    solution = solve_wahba(F, F @ R.T, group)
    torch.testing.assert_close(F @ solution.T, F @ R.T)
    assert Euclidean().contains(solution)
    if group == "SO":
        assert torch.linalg.det(solution) == pytest.approx(1)
    torch.testing.assert_close(solve_wahba(F, F, group), torch.eye(d, dtype=torch.float64), atol=1e-5, rtol=0)
    # Among random completions with the same error, none is nearer the identity.
    null = torch.linalg.svd(F)[2][rank:]
    for _ in range(20):
        turn = torch.eye(d, dtype=torch.float64) + null.T @ (rotation(d - rank, generator) - torch.eye(d - rank)) @ null
        other = solution @ turn
        torch.testing.assert_close(F @ other.T, F @ R.T)
        assert other.trace() <= solution.trace() + 1e-9


def test_points_at_the_origin_give_the_identity():
    torch.testing.assert_close(solve_wahba(torch.zeros(5, 4), torch.zeros(5, 4)), torch.eye(4))


def test_repeated_singular_values(generator):
    """Orthonormal points make all singular values equal; the solution is still the planted rotation."""
    R = rotation(6, generator)
    F = rotation(6, generator)
    torch.testing.assert_close(solve_wahba(F, F @ R.T), R)


def test_batch_equals_one_by_one(generator):
    F, F_a = points(20, 5, generator), torch.stack([points(20, 5, generator) for _ in range(6)]).view(2, 3, 20, 5)
    together = solve_wahba(F, F_a)
    assert together.shape == (2, 3, 5, 5)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], solve_wahba(F, F_a[i, j]))
            torch.testing.assert_close(wahba_error(F, F_a)[i, j], wahba_error(F, F_a[i, j]))


def test_half_precision_is_solved_in_float32(generator):
    F, R = points(200, 8, generator), rotation(8, generator)
    solution = solve_wahba(F.bfloat16(), (F @ R.T).bfloat16())
    assert solution.dtype == torch.float32
    assert (solution - R).abs().max() < 5e-3


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("group", ["SO", "O", "Lorentz", "Sp"])
def test_points_that_are_not_finite_are_refused(bad, group):
    F = torch.ones(4, 2)
    F_bad = F.clone()
    F_bad[2, 1] = bad
    with pytest.raises(ValueError, match="finite"):
        solve_wahba(F, F_bad, group)


@pytest.mark.parametrize(
    ("form", "spread"), [(Minkowski(), 0.5), (Minkowski(), 2.0), (Symplectic(), 0.5), (Symplectic(), 2.0)]
)
@pytest.mark.parametrize("d", [4, 16])
def test_planted_boosts_and_symplectic_maps_are_recovered(form, spread, d, generator):
    F = form.embed(torch.randn(5 * d, d, generator=generator, dtype=torch.float64))
    A = form.random_element(d, generator, spread)
    solution = solve_wahba(F, F @ A.T, form.group)
    torch.testing.assert_close(solution, A, atol=1e-6, rtol=1e-6)
    batch = solve_wahba(F.float(), torch.stack([F @ A.T, F]).float(), form.group)
    assert batch.dtype == torch.float32
    torch.testing.assert_close(batch[1], torch.eye(d), atol=1e-3, rtol=0)


@pytest.mark.parametrize("form", [Minkowski(), Symplectic()], ids=lambda form: form.name)
def test_noisy_data_end_in_a_stationary_point_of_the_group(form, generator):
    """Least squares on the group: no small step inside the group lowers the error, and the identity is no better."""
    d = 6
    F = form.embed(torch.randn(60, d, generator=generator, dtype=torch.float64))
    A = form.random_element(d, generator, 0.7)
    target = form.embed(F @ A.T + 0.1 * torch.randn(60, d, generator=generator, dtype=torch.float64))
    solution = solve_wahba(F, target, form.group)
    best = wahba_error(F, target, form.group)

    def error(element):
        moved = F @ element.T - target
        return (moved @ form.matrix(d) * moved).sum() ** 0.5 if form.name == "minkowski" else moved.norm()

    assert form.contains(solution, tolerance=1e-10)
    assert best == pytest.approx(error(solution).item())
    assert best < error(torch.eye(d, dtype=torch.float64))
    assert best <= error(A)
    J, sign = form.matrix(d), (1 if form.group == "Sp" else -1)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(50):
            W = size * torch.randn(d, d, generator=generator, dtype=torch.float64)
            assert error(solution @ torch.linalg.matrix_exp(J @ (W + sign * W.T))) >= best - 1e-9


def fitted_by_scipy(form, F, target, start):
    """Least squares over A = start · exp(JK), by SciPy, with numerical gradients: slow and independent."""
    d, sign = F.shape[1], (1 if form.group == "Sp" else -1)
    J, F, target, start = (x.numpy() for x in (form.matrix(d), F, target, start))
    metric = J if form.name == "minkowski" else np.eye(d)

    def error(entries):
        K = entries.reshape(d, d)
        moved = F @ (start @ scipy.linalg.expm(J @ (K + sign * K.T))).T - target
        return ((moved @ metric) * moved).sum()

    return scipy.optimize.minimize(error, np.zeros(d * d), tol=1e-12).fun ** 0.5


@pytest.mark.parametrize("form", [Minkowski(), Symplectic()], ids=lambda form: form.name)
@pytest.mark.parametrize("seed", range(3))
def test_scipy_finds_nothing_better_for_points_far_from_even(form, seed):
    """As trained embeddings are: most of them in one direction, and much of their displacement of no group."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.tensor([2.0, 0.5, 0.2, 0.05], dtype=torch.float64)
    F, noise = torch.randn(2, 40, 4, generator=generator, dtype=torch.float64) * spread
    F, A = form.embed(F + 1), form.random_element(4, generator, 0.5)
    target = form.embed(F @ A.T + noise)
    best = wahba_error(F, target, form.group).item()
    starts = [torch.eye(4, dtype=torch.float64), A, solve_wahba(F, target, form.group)]
    found = [fitted_by_scipy(form, F, target, start) for start in starts]
    assert best == pytest.approx(found[-1], rel=1e-5)
    if form.name == "minkowski":  # the closed form is the minimum, not one of several
        assert best <= min(found) * (1 + 1e-6)


@pytest.mark.parametrize(("n", "rank"), [(1, 2), (3, 6), (40, 4)])
def test_undetermined_lorentz_transformations_move_nothing_that_they_need_not(n, rank, generator):
    """Points in a subspace are fitted exactly by an element of the group, and points that stay by the identity."""
    form, zero = Minkowski(), torch.zeros(n, 6 - rank, dtype=torch.float64)
    F = form.embed(torch.cat([torch.randn(n, rank, generator=generator, dtype=torch.float64), zero], dim=1))
    A = form.random_element(6, generator, 0.5)
    solution = solve_wahba(F, F @ A.T, "Lorentz")
    torch.testing.assert_close(F @ solution.T, F @ A.T)
    assert form.contains(solution, tolerance=1e-10)
    assert solution[0, 0] >= 1
    torch.testing.assert_close(solve_wahba(F, F, "Lorentz"), torch.eye(6, dtype=torch.float64), atol=1e-5, rtol=0)


def test_points_far_out_are_fitted(generator):
    """Where time is 10,000, float32 rounds B(x, x) by more than its −1: time is computed again from space."""
    form, away = Minkowski(), torch.tensor([0.0, 1e4, 0.0, 0.0], dtype=torch.float64)
    F = form.embed(away + torch.randn(60, 4, generator=generator, dtype=torch.float64)).float()
    torch.testing.assert_close(solve_wahba(F, F, "Lorentz"), torch.eye(4), atol=1e-4, rtol=0)
    F_a = form.embed(away + torch.randn(60, 4, generator=generator, dtype=torch.float64)).float()
    exact = solve_wahba(form.embed(F.double()), form.embed(F_a.double()), "Lorentz")
    torch.testing.assert_close(solve_wahba(F.double(), F_a.double(), "Lorentz"), exact)
    near = form.embed(torch.randn(60, 4, generator=generator, dtype=torch.float64))
    A = boost(torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64))
    torch.testing.assert_close(solve_wahba(near, near @ A.T, "Lorentz"), A, rtol=1e-6, atol=1e-6 * A.max().item())


def test_points_off_the_hyperboloid_are_refused():
    with pytest.raises(ValueError, match="hyperboloid"):
        solve_wahba(torch.ones(4, 3), torch.ones(4, 3), "Lorentz")


def test_generalized_polar_factor_does_not_always_exist():
    """For J = diag(−1, 1) and A swapping the two axes, J⁻¹AᵀJA = −I has only negative eigenvalues."""
    J = Minkowski().matrix(2)
    assert generalized_polar(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64), J) is None


@pytest.mark.usefixtures("unchecked")
def test_unknown_group_and_empty_points():
    with pytest.raises(ValueError, match='"SO"'):
        solve_wahba(torch.ones(2, 2), torch.ones(2, 2), "SU")
    with pytest.raises(ValueError, match="n ≥ 1"):
        solve_wahba(torch.ones(0, 2), torch.ones(0, 2))


@pytest.mark.parametrize(("n", "d"), [(6, 40), (12, 20), (30, 20), (30, 3)])
def test_the_error_without_the_rotation_is_that_of_the_rotation(n, d, generator):
    """Fewer points than dimensions, and more; for (30, 3) also where the best orthogonal map is a reflection."""
    A, B = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    for target in (B, A * torch.tensor([-1.0] + [1.0] * (d - 1))):
        torch.testing.assert_close(squared_wahba(A, target).sqrt(), wahba_error(A, target), atol=1e-6, rtol=1e-9)
