import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from care.evaluate import knn_predict


@pytest.mark.parametrize("τ", [0.07, 0.5])
@pytest.mark.parametrize("k", [1, 5, 20, 200, 1000])
def test_agrees_with_scikit_learn(k, τ, generator):
    labels = torch.randint(4, (300,), generator=generator)
    centers = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    train = centers[labels] + torch.randn(300, 8, generator=generator, dtype=torch.float64)
    queries = torch.randn(100, 8, generator=generator, dtype=torch.float64)
    theirs = KNeighborsClassifier(
        min(k, 300), metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / τ)
    ).fit(train.numpy(), labels.numpy())
    assert knn_predict(train, labels, queries, k, τ).tolist() == theirs.predict(queries.numpy()).tolist()


def test_a_temperature_near_zero_asks_the_nearest_neighbor(generator):
    labels = torch.randint(4, (300,), generator=generator)
    train, queries = torch.randn(300, 8, generator=generator), torch.randn(100, 8, generator=generator)
    assert torch.equal(knn_predict(train, labels, queries, 200, 1e-6), knn_predict(train, labels, queries, 1))


def test_the_temperature_is_that_of_the_field(generator):
    labels = torch.randint(4, (300,), generator=generator)
    train, queries = torch.randn(300, 8, generator=generator), torch.randn(100, 8, generator=generator)
    assert torch.equal(knn_predict(train, labels, queries, 200), knn_predict(train, labels, queries, 200, 0.07))
    assert not torch.equal(knn_predict(train, labels, queries, 200), knn_predict(train, labels, queries, 200, 0.5))


@pytest.mark.usefixtures("unchecked")
def test_features_of_integers_are_features(generator):
    train, labels = torch.randint(-9, 9, (40, 6), generator=generator), torch.arange(40) % 4
    assert (knn_predict(train, labels, train, k=1) == knn_predict(train.float(), labels, train.float(), k=1)).all()


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_vote_is_refused():
    train, labels = torch.eye(4), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match="training rows must all have a class: leave out those labeled -1"):
        knn_predict(train, torch.tensor([0, 1, -1, 1]), train)
    with pytest.raises(ValueError, match="training features must be finite"):
        knn_predict(train * torch.nan, labels, train)
    with pytest.raises(ValueError, match="must be finite"):
        knn_predict(train, labels, train * torch.nan)
