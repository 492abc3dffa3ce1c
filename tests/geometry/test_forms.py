import pytest
import scipy.linalg
import torch

from care.geometry import Euclidean, Minkowski, Symplectic, form_named, form_of
from care.geometry.forms import boost

FORMS = [Euclidean(), Minkowski(), Symplectic()]
form_and_dimension = pytest.mark.parametrize(
    ("form", "d"), [(form, d) for form in FORMS for d in (2, 6, 16)], ids=lambda v: getattr(v, "name", str(v))
)


@form_and_dimension
def test_gram_is_the_literal_double_sum(form, d, generator):
    x, y = torch.randn(5, d, generator=generator), torch.randn(4, d, generator=generator)
    J = form.matrix(d)
    for i in range(5):
        for j in range(4):
            literal = sum(x[i, k].item() * J[k, m].item() * y[j, m].item() for k in range(d) for m in range(d))
            assert form.gram(x, y)[i, j].item() == pytest.approx(literal, abs=1e-5)


@form_and_dimension
def test_random_elements_preserve_the_form_and_the_embedding_space(form, d, generator):
    for spread in (0.3, 1.5):
        A = form.random_element(d, generator, spread)
        x = form.embed(torch.randn(7, d, dtype=torch.float64, generator=generator))
        assert form.contains(A)
        torch.testing.assert_close(form.gram(x @ A.mT), form.gram(x), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(form.embed(x @ A.mT), x @ A.mT, rtol=1e-9, atol=1e-9)


@form_and_dimension
def test_membership_rejects_what_does_not_preserve_the_form(form, d, generator):
    A = form.random_element(d, generator)
    bent = A.clone()
    bent[0, -1] += 1e-3
    assert form.contains(torch.stack([A, bent, 2 * A])).tolist() == [True, False, False]


def test_groups_are_told_apart(generator):
    rotation = Euclidean().random_element(4, generator)
    lorentz = boost(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64))
    symplectic = Symplectic().random_element(4, generator)
    members = [[bool(form.contains(A)) for form in FORMS] for A in (rotation, lorentz, symplectic)]
    assert members == [[True, False, False], [False, True, False], [False, False, True]]


@form_and_dimension
def test_embedding_is_a_retraction(form, d, generator):
    x = 3 * torch.randn(9, d, generator=generator)
    once = form.embed(x)
    torch.testing.assert_close(form.embed(once), once)


def test_embedding_spaces(generator):
    x = 5 * torch.randn(20, 6, generator=generator, dtype=torch.float64)
    ones = torch.ones(20, dtype=torch.float64)
    torch.testing.assert_close(Euclidean().gram(Euclidean().embed(x)).diagonal(), ones)
    torch.testing.assert_close(Minkowski().gram(Minkowski().embed(x)).diagonal(), -ones, atol=1e-12, rtol=1e-12)
    assert (Minkowski().embed(x)[:, 0] >= 1).all()
    assert torch.equal(Symplectic().embed(x), x)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_embedding_a_zero_vector_is_finite_with_finite_gradient(form):
    x = torch.zeros(2, 4, requires_grad=True)
    form.embed(x).sum().backward()
    assert torch.isfinite(form.embed(x)).all()
    assert torch.isfinite(x.grad).all()


def test_boost_is_the_exponential_of_its_generator():
    u, eta = torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64), torch.tensor(1.3, dtype=torch.float64)
    algebra = torch.zeros(4, 4, dtype=torch.float64)
    algebra[0, 1:] = algebra[1:, 0] = eta * u
    torch.testing.assert_close(boost(u, eta), torch.tensor(scipy.linalg.expm(algebra.numpy())))


def test_random_rotations_are_haar(generator):
    """Entries of a Haar rotation have mean 0 and variance 1/d, and both signs of the determinant are equally likely."""
    Q = torch.stack([Euclidean().random_element(3, generator) for _ in range(2000)])
    assert Q.mean(0).abs().max() < 5 * (1 / 3 / 2000) ** 0.5
    assert (Q.square().mean(0) - 1 / 3).abs().max() < 0.05
    assert abs(torch.linalg.det(Q).mean()) < 5 / 2000**0.5


def test_distances_on_the_hyperboloid_grow_with_the_rapidity(generator):
    """2 cosh η − 2 between points a rapidity η apart, wherever they are, as 2 − 2 cos θ on the sphere."""
    u, form = torch.tensor([0.6, 0.8], dtype=torch.float64), Minkowski()
    points = torch.stack([boost(u, torch.tensor(eta, dtype=torch.float64))[:, 0] for eta in (-1.0, 0.0, 0.5, 2.0)])
    found = form.squared_distance(points[:-1], points[1:])
    torch.testing.assert_close(found, 2 * torch.tensor([1.0, 0.5, 1.5], dtype=torch.float64).cosh() - 2)
    outward = torch.tensor([0.0, 0.6, 0.8])
    far = form.embed((1e3 + torch.rand(200, 1, generator=generator)) * outward)  # time is rounded by up to 3e-5
    assert (form.squared_distance(far[:-1], far[1:]) >= 0).all()
    torch.testing.assert_close(Symplectic().squared_distance(points, 2 * points), points.square().sum(1))


def test_forms_by_group():
    assert [form_of(form.group) for form in FORMS] == FORMS
    assert form_of("SO") == Euclidean()


def test_a_symplectic_form_needs_an_even_dimension():
    with pytest.raises(ValueError, match="even dimension, got 3"):
        Symplectic().gram(torch.zeros(2, 3))


def test_forms_by_name():
    assert [form_named(form.name) for form in FORMS] == FORMS
    with pytest.raises(ValueError, match="euclidean, minkowski, symplectic"):
        form_named("hermitian")
