import numpy as np
import pytest
import torch
from scipy.linalg import fractional_matrix_power
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from care.evaluate import knn_predict, whitening


@pytest.fixture
def features(generator):
    """200 rows of 6 numbers of different sizes, correlated, and not of mean 0."""
    spread = torch.randn(6, 6, generator=generator).double() * torch.tensor([9, 3, 1, 0.3, 0.1, 0.01])
    return torch.randn(200, 6, generator=generator).double() @ spread.mT + 5


def test_it_is_the_literal_formula(features):
    X, ε = features.numpy(), np.sqrt(6 / 200)
    C = np.cov(X.T, bias=True)
    W = fractional_matrix_power(C + ε * np.trace(C) / 6 * np.eye(6), -0.5)
    assert np.allclose(whitening(features)(features), (X - X.mean(0)) @ W)


def test_with_many_rows_it_is_the_whitening_of_scikit_learn(generator):
    """Up to a rotation, and to √(d/n)."""
    X = torch.randn(400_000, 2, generator=generator).double() @ torch.tensor([[2.0, 1.0], [0.0, 1.0]]).double()
    theirs, some = torch.from_numpy(PCA(whiten=True).fit_transform(X.numpy()))[:50], whitening(X)(X)[:50]
    assert torch.allclose(torch.cdist(some, some), torch.cdist(theirs, theirs), rtol=0.01, atol=1e-3)


def test_distances_do_not_depend_on_rotations_shifts_and_the_unit(features):
    Q = torch.from_numpy(ortho_group.rvs(6, random_state=0))
    other = 7 * features @ Q - 3
    a, b = whitening(features)(features), whitening(other)(other)
    assert torch.allclose(torch.cdist(a, a), torch.cdist(b, b), atol=1e-6)


def test_neighbors_share_a_class_that_a_nuisance_hides(generator):
    """The class is in the sign of a coordinate, among others that vary five times as much."""
    X, labels = 5 * torch.randn(2000, 8, generator=generator), torch.arange(2000) % 2
    X[:, 0] = 2.0 * labels - 1 + 0.1 * torch.randn(2000, generator=generator)
    train, queries = X[:1000], X[1000:]
    whiten = whitening(train)

    def accuracy(a, b):
        return (knn_predict(a, labels[:1000], b, k=20) == labels[1000:]).double().mean()

    assert accuracy(train, queries) < 0.7
    assert accuracy(whiten(train), whiten(queries)) > 0.9


def test_features_that_do_not_vary_stay_finite():
    X = torch.ones(5, 3)
    assert torch.equal(whitening(X)(X), torch.zeros(5, 3).double())
    few = torch.eye(4)[:2]  # fewer rows than dimensions
    assert whitening(few)(few).isfinite().all()


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_whitened_is_refused():
    for wrong in (torch.zeros(0, 3), torch.full((2, 3), torch.nan), torch.zeros(3)):
        with pytest.raises(ValueError, match="must be finite rows"):
            whitening(wrong)
