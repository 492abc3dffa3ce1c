import pytest
import torch
from sklearn.metrics import r2_score

from care.geometry import (
    Euclidean,
    Minkowski,
    Symplectic,
    best_inner_products,
    composition_error,
    displacement,
    gram_error,
    heldout_ratio,
    measures,
    relative_equivariance,
    relative_error,
    skew,
    solve_wahba,
    source_of,
    symplectic_strength,
    unexplained,
)
from care.geometry.crossfit import halves
from care.geometry.forms import boost

RELATIVE = [relative_equivariance, heldout_ratio, lambda F, F_a: composition_error(F, F_a, F, F_a)]


def sphere(n, d, generator):
    return Euclidean().embed(torch.randn(n, d, generator=generator, dtype=torch.float64))


def displaced(F, size, generator):
    """Every point pushed in another direction."""
    return Euclidean().embed(F + size * Euclidean().embed(torch.randn(F.shape, generator=generator, dtype=F.dtype)))


def literal_gamma(F, F_a):
    n, total, count = len(F), 0.0, 0
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            numerator = ((F_a[j] - F_a[i]).square().sum() - (F[j] - F[i]).square().sum()) ** 2
            denominator = ((F_a[j] - F[j]).square().sum() + (F_a[i] - F[i]).square().sum()) ** 2
            if denominator > 0:
                total, count = total + (numerator / denominator).item(), count + 1
    return total / count


def unexplained_variance(F, F_a):
    source = source_of(F)
    return unexplained(source, F_a, best_inner_products(source, F_a).rotation)


def test_unexplained_variance_is_that_of_the_fitted_rotation_where_there_are_many_points(generator):
    F = sphere(20_000, 5, generator)
    R = torch.linalg.matrix_exp(skew(torch.randn(5, 5, generator=generator, dtype=F.dtype)))
    F_a = displaced(F @ R.mT, 0.5, generator)
    predicted = F @ solve_wahba(F, F_a).mT
    expected = 1 - r2_score(F_a.numpy(), predicted.numpy(), multioutput="variance_weighted")
    assert unexplained_variance(F, F_a).item() == pytest.approx(expected, abs=1e-3)


def test_where_all_images_get_one_embedding_nothing_is_explained_unless_they_had_one_before(generator):
    F = sphere(50, 5, generator)
    assert unexplained_variance(F, F[:1].expand_as(F)) > 1e3
    assert unexplained_variance(F[:1].expand_as(F), F[1:2].expand_as(F)).isnan()


def test_an_encoder_of_the_augmentation_alone_is_told_from_a_rotation(generator):
    """Nearly one point for all images, and another under the augmentation: the held-out ratio is fooled."""
    point, other = sphere(2, 8, generator)
    F, F_a = displaced(point.expand(500, 8), 0.1, generator), displaced(other.expand(500, 8), 0.1, generator)
    assert heldout_ratio(F, F_a).item() < 0.05
    assert unexplained_variance(F, F_a).item() > 0.95
    rotated = F @ torch.linalg.matrix_exp(skew(torch.randn(8, 8, generator=generator, dtype=torch.float64))).mT
    assert unexplained_variance(F, rotated).item() < 1e-9


def test_relative_equivariance_is_the_papers_formula(generator):
    """Also off the sphere, where the numerator is not just the Gram difference."""
    F, F_a = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    assert relative_equivariance(F, F_a).item() == pytest.approx(literal_gamma(F, F_a))


def test_pairs_that_did_not_move_are_left_out_of_gamma(generator):
    F = sphere(10, 4, generator)
    F_a = displaced(F, 0.3, generator)
    F_a[:6] = F[:6]
    assert relative_equivariance(F, F_a).item() == pytest.approx(literal_gamma(F, F_a))


@pytest.mark.parametrize("form", [Euclidean(), Minkowski(), Symplectic()], ids=lambda form: form.name)
def test_gram_error_is_the_mean_over_different_pairs(form, generator):
    F, F_a = torch.randn(2, 9, 6, generator=generator, dtype=torch.float64)
    J, pairs = form.matrix(6), [(i, j) for i in range(9) for j in range(9) if i != j]
    literal = sum((F_a[i] @ J @ F_a[j] - F[i] @ J @ F[j]) ** 2 for i, j in pairs) / len(pairs)
    torch.testing.assert_close(gram_error(F, F_a, form), literal)


def test_invariance_is_the_mean_displacement(generator):
    F, F_a = torch.randn(2, 9, 6, generator=generator, dtype=torch.float64)
    literal = sum((F_a[i] - F[i]).square().sum() ** 0.5 for i in range(9)) / 9
    torch.testing.assert_close(displacement(F, F_a), literal)


@pytest.mark.parametrize(("form", "group"), [(Minkowski(), "Lorentz"), (Symplectic(), "Sp")])
def test_in_other_groups_the_heldout_ratio_is_the_literal_cross_fit(form, group, generator):
    F = form.embed(torch.randn(60, 4, generator=generator, dtype=torch.float64))
    F_a = form.embed(F + 0.1 * torch.randn(F.shape, generator=generator, dtype=F.dtype))
    error = 0.0
    first, second = halves(F)
    for fit, score in ((first, second), (second, first)):
        error += form.squared_distance(F[score] @ solve_wahba(F[fit], F_a[fit], group).mT, F_a[score]).sum()
    torch.testing.assert_close(heldout_ratio(F, F_a, group), error / form.squared_distance(F, F_a).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_equivariant_encoder_scores_zero(dtype, generator):
    F = sphere(200, 8, generator).to(dtype)
    R_a, R_b = (Euclidean().random_element(8, generator).to(dtype) for _ in range(2))
    F_a, F_b, F_ba = F @ R_a.T, F @ R_b.T, F @ (R_b @ R_a).T
    zero = 1e-8 if dtype == torch.float32 else 1e-11  # maps are shrunk by a millionth
    assert gram_error(F, F_a) < zero
    assert relative_equivariance(F, F_a) < zero
    assert heldout_ratio(F, F_a, "O") < zero
    assert composition_error(F, F_a, F_b, F_ba, "O") < zero


@pytest.mark.parametrize(("form", "group"), [(Minkowski(), "Lorentz"), (Symplectic(), "Sp")])
def test_planted_elements_of_other_groups_score_zero(form, group, generator):
    F = form.embed(torch.randn(60, 6, generator=generator, dtype=torch.float64))
    A, B = (form.random_element(6, generator, 0.5) for _ in range(2))
    assert gram_error(F, F @ A.T, form) < 1e-18
    assert heldout_ratio(F, F @ A.T, group) < 1e-12
    assert composition_error(F, F @ A.T, F @ B.T, F @ (B @ A).T, group) < 1e-12
    assert heldout_ratio(F, F @ A.T, "O") > 0.01


FORMS = [Euclidean(), Minkowski(), Symplectic()]
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def embedded(form, n, d, generator):
    return form.embed(torch.randn(n, d, generator=generator, dtype=torch.float64))


@each_form
def test_the_identity_has_ratio_one_in_every_group(form, generator):
    F, F_a = embedded(form, 40, 6, generator), embedded(form, 40, 6, generator)
    assert relative_error(F, F, F_a, form.group).item() == pytest.approx(1, abs=1e-12)


@each_form
def test_a_displacement_of_no_group_has_ratio_one_in_every_group(form, generator):
    """As large a part of it is explained as a linear map with d² numbers finds by chance: next to nothing."""
    F = embedded(form, 4000, 6, generator)
    F_a = form.embed(F + 0.3 * torch.randn(F.shape, generator=generator, dtype=F.dtype))
    assert heldout_ratio(F, F_a, form.group).item() == pytest.approx(1, abs=0.03)


def test_the_ratio_on_the_hyperboloid_does_not_depend_on_where_the_points_are(generator):
    """Boosting all embeddings changes neither the fit nor its error; ‖·‖² in coordinates would change with it."""
    form = Minkowski()
    F = embedded(form, 60, 5, generator)
    F_a = form.embed(F + 0.5 * torch.randn(F.shape, generator=generator, dtype=F.dtype))
    B = boost(torch.tensor([0.6, 0.0, 0.8, 0.0], dtype=F.dtype), torch.tensor(3.0, dtype=F.dtype))
    for measure in (heldout_ratio, composition_with_itself):
        torch.testing.assert_close(measure(F @ B.T, F_a @ B.T, "Lorentz"), measure(F, F_a, "Lorentz"))
    torch.testing.assert_close(
        relative_equivariance(F @ B.T, F_a @ B.T, form=form), relative_equivariance(F, F_a, form=form)
    )
    torch.testing.assert_close(displacement(F @ B.T, F_a @ B.T, form), displacement(F, F_a, form))
    assert (F_a @ B.T - F @ B.T).norm() > 2 * (F_a - F).norm()


def composition_with_itself(F, F_a, group):
    return composition_error(F, F_a, F, F_a, group)


@each_form
def test_relative_equivariance_of_a_form_is_the_literal_formula(form, generator):
    F, F_a = embedded(form, 9, 6, generator), embedded(form, 9, 6, generator)
    J, metric = form.matrix(6), form.matrix(6) if form.name == "minkowski" else torch.eye(6, dtype=torch.float64)
    moved = [(F_a[i] - F[i]) @ metric @ (F_a[i] - F[i]) for i in range(9)]
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    literal = sum(
        (2 * (F_a[i] @ J @ F_a[j] - F[i] @ J @ F[j]) / (moved[i] + moved[j])).square() for i, j in pairs
    ) / len(pairs)
    torch.testing.assert_close(relative_equivariance(F, F_a, form=form), literal)
    A = form.random_element(6, generator, 0.5)
    assert relative_equivariance(F, F @ A.T, form=form) < 1e-18


def test_symplectic_strength_is_the_literal_double_sum(generator):
    F, J = torch.randn(7, 6, generator=generator, dtype=torch.float64), Symplectic().matrix(6)
    omega = sum((x @ J @ y) ** 2 for x in F for y in F)
    areas = sum((x @ x) * (y @ y) - (x @ y) ** 2 for x in F for y in F)
    torch.testing.assert_close(symplectic_strength(F), 5 * omega / areas)
    torch.testing.assert_close(symplectic_strength(7 * F), symplectic_strength(F))


def test_symplectic_strength_tells_a_lagrangian_subspace_from_any_other(generator):
    q = torch.randn(100, 4, generator=generator, dtype=torch.float64)
    lagrangian = torch.cat([q, 0.5 * q], dim=1)  # p = q/2: ω(x, y) = q·q'/2 − q·q'/2
    A = Symplectic().random_element(8, generator, 0.5)
    assert symplectic_strength(lagrangian @ A.T) < 1e-20
    rotated = [lagrangian @ Euclidean().random_element(8, generator).T for _ in range(200)]
    assert torch.stack([symplectic_strength(F) for F in rotated]).mean().item() == pytest.approx(1, abs=0.1)
    assert symplectic_strength(torch.outer(q[:, 0], q[0].repeat(2))).isnan()


@pytest.mark.parametrize("group", ["SO", "O"])
@pytest.mark.parametrize("size", [0.05, 0.5, 2.0])
def test_a_random_displacement_is_no_rotation(group, size, generator):
    """The held-out ratio sees through it at every size, while γ_f falls with size and W_f grows."""
    F = sphere(20_000, 16, generator)
    assert heldout_ratio(F, displaced(F, size, generator), group).item() == pytest.approx(1, abs=0.01)


def test_gamma_rewards_displacement(generator):
    F = sphere(500, 16, generator)
    small, large = (relative_equivariance(F, displaced(F, size, generator)).item() for size in (0.1, 0.4))
    assert small / large == pytest.approx(16, rel=0.2)  # γ_f falls as 1/δ²


@pytest.mark.parametrize("measure", RELATIVE, ids=["gamma", "heldout", "composition"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_invariant_encoder_is_reported_as_such(measure, dtype, generator):
    """NaN, not 0 and not a huge number, also when rounding moved the points a little."""
    F = sphere(50, 8, generator).to(dtype)
    rounded = F * (1 + torch.finfo(dtype).eps * torch.randn(50, 8, generator=generator).to(dtype))
    assert measure(F, F).isnan()
    assert measure(F, rounded).isnan()
    assert displacement(F, F) == 0
    assert gram_error(F, F) == 0


@pytest.mark.parametrize("measure", [*RELATIVE, gram_error, displacement])
def test_many_augmentations_at_once_equal_one_by_one(measure, generator):
    F = sphere(40, 5, generator)
    F_a = torch.stack([displaced(F, 0.4, generator) for _ in range(6)]).view(2, 3, 40, 5)
    together = measure(F, F_a)
    assert together.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], measure(F, F_a[i, j]))


@pytest.mark.parametrize("measure", [relative_equivariance, gram_error])
def test_blocks_of_pairs_add_up(measure, generator, monkeypatch):
    F = sphere(37, 5, generator)
    F_a = displaced(F, 0.4, generator)
    whole = measure(F, F_a)
    monkeypatch.setattr(measures, "PAIRS_AT_ONCE", 100)
    torch.testing.assert_close(measure(F, F_a), whole)


@pytest.mark.parametrize("measure", [*RELATIVE, gram_error, displacement])
@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_points_that_are_not_finite_are_refused(measure, bad, generator):
    F = sphere(6, 3, generator)
    F_a = F.clone()
    F_a[5, 0] = bad
    with pytest.raises(ValueError, match="finite"):
        measure(F, F_a)


def test_one_point_has_no_pairs():
    for measure in (relative_equivariance, gram_error, heldout_ratio):
        with pytest.raises(ValueError, match="n ≥ 2"):
            measure(torch.ones(1, 3), torch.ones(1, 3))
