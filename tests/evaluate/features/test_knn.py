import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from care.evaluate import knn_predict


@pytest.mark.parametrize("k", [1, 5, 20, 200, 1000])
def test_agrees_with_scikit_learn(k, generator):
    labels = torch.randint(4, (300,), generator=generator)
    centers = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    bank = centers[labels] + torch.randn(300, 8, generator=generator, dtype=torch.float64)
    queries = torch.randn(100, 8, generator=generator, dtype=torch.float64)
    theirs = KNeighborsClassifier(
        min(k, 300), metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / 0.5)
    ).fit(bank.numpy(), labels.numpy())
    assert knn_predict(bank, labels, queries, k).tolist() == theirs.predict(queries.numpy()).tolist()
