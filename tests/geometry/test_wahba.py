import pytest
import scipy.linalg
import scipy.spatial.transform
import torch

from care.geometry import Euclidean, Minkowski, Symplectic, solve_wahba, wahba_error
from care.geometry.stabilizer import generalized_polar


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
    torch.testing.assert_close(solve_wahba(F, F, group), torch.eye(d, dtype=torch.float64))
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
    target = F @ A.T + 0.1 * torch.randn(60, d, generator=generator, dtype=torch.float64)
    solution = solve_wahba(F, target, form.group)
    best = wahba_error(F, target, form.group)
    assert form.contains(solution, tolerance=1e-10)
    assert best < (F - target).norm()
    assert best <= (F @ A.T - target).norm()
    J, sign = form.matrix(d), (1 if form.group == "Sp" else -1)
    for _ in range(50):
        W = 1e-3 * torch.randn(d, d, generator=generator, dtype=torch.float64)
        other = solution @ torch.linalg.matrix_exp(J @ (W + sign * W.T))
        assert (F @ other.T - target).norm() >= best - 1e-9


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
