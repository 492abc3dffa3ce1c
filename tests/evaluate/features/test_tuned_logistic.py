import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from care.evaluate.features.newton import Objective
from care.evaluate.features.tuned_logistic import PENALTIES, _past_the_top, _regularization_path, tuned_logistic


@pytest.fixture(autouse=True)
def all_penalties(monkeypatch):
    monkeypatch.setattr("care.evaluate.features.tuned_logistic.PENALTIES", PENALTIES)


def overlapping(generator, n=240, d=12, classes=3):
    """Classes that overlap, of features with offsets, correlations and units of their own; one says nothing at all."""
    labels = torch.arange(n) % classes
    centers = 0.7 * torch.randn(classes, d, generator=generator)
    features = (centers[labels] + torch.randn(n, d, generator=generator)) @ torch.randn(d, d, generator=generator)
    features = features * torch.logspace(-3, 3, d) + 5
    return torch.cat([features, torch.full((n, 1), 0.3)], dim=1), labels


def scikit_learn(features, labels, heldout, penalties):
    """Accuracy per penalty, and the refit at the first of the best: a cold start for each."""

    def fit(rows, penalty):
        model = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        return make_pipeline(StandardScaler(), model).fit(features[rows].numpy(), labels[rows].numpy())

    held = features[heldout].numpy(), labels[heldout].numpy()
    accuracy = [fit(~heldout, penalty).score(*held) for penalty in penalties]
    penalty = penalties[int(np.argmax(accuracy))]
    return accuracy, penalty, fit(torch.ones_like(heldout), penalty)


@pytest.mark.parametrize("classes", [2, 3])
def test_penalty_and_probabilities_are_those_of_scikit_learn(classes, generator):
    features, labels = overlapping(generator, classes=classes)
    heldout = torch.arange(len(labels)) % 4 == 1
    ours = tuned_logistic(features, labels, heldout)
    accuracy, penalty, theirs = scikit_learn(features.double(), labels, heldout, PENALTIES)
    assert ours.penalty == penalty
    visited = len(ours.validation)
    assert ours.penalties == PENALTIES[:visited]
    np.testing.assert_allclose(ours.validation, accuracy[:visited], atol=1e-12)
    assert ours.classifier.converged
    probabilities = ours.scores(features).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(features.double().numpy()), atol=1e-5)
    assert ours.predict(features).tolist() == theirs.predict(features.double().numpy()).tolist()


def test_penalties_are_those_of_the_transfer_protocol():
    np.testing.assert_allclose(1 / np.array(PENALTIES), np.logspace(-6, 5, 45), rtol=1e-12)


def test_a_tenth_of_each_class_chooses_by_default(generator):
    features, labels = overlapping(generator)
    place = torch.arange(len(labels)) // 3  # classes take turns
    ours, given = (tuned_logistic(features, labels, rows, (10.0, 1.0, 0.1)) for rows in (None, place % 10 == 1))
    assert ours.validation == given.validation
    assert torch.equal(ours.classifier.weight, given.classifier.weight)


def test_of_equally_good_penalties_the_strongest_is_chosen_whatever_their_order(generator):
    labels = torch.arange(60) % 3
    features = torch.eye(3)[labels] + 0.01 * torch.randn(60, 3, generator=generator)
    fitted = tuned_logistic(features, labels, penalties=[1e-2, 1.0, 1e-4])
    assert (fitted.penalty, fitted.penalties, fitted.validation) == (1.0, (1.0,), (1.0,))


def test_the_path_ends_once_a_decade_of_penalties_is_worse_beyond_chance():
    def hits(right):
        return torch.arange(1000) < right

    best = hits(900)
    assert _past_the_top([hits(500), best, *[hits(880)] * 4])
    assert not _past_the_top([hits(500), best, *[hits(880)] * 3])
    assert not _past_the_top([best, *[hits(895)] * 9])  # 5 rows lost: 2.2 standard errors
    assert not _past_the_top([best, *[hits(880)] * 3, hits(895)])
    shuffled = best.roll(50)  # 50 rows lost, 50 won
    assert not _past_the_top([best, *[shuffled] * 9])


def test_an_early_end_leaves_the_choice_as_it_is(generator, monkeypatch):
    labels = torch.randint(2, (1000,), generator=generator)
    features = torch.randn(1000, 100, generator=generator)
    features[:, :50] += 3 * torch.randn(1000, 1, generator=generator) + 2 * labels[:, None]  # the rest says nothing
    heldout = torch.arange(1000) >= 150
    ended = tuned_logistic(features, labels, heldout)
    monkeypatch.setattr("care.evaluate.features.tuned_logistic._past_the_top", lambda correct: False)
    whole = tuned_logistic(features, labels, heldout)
    assert len(ended.validation) < len(whole.validation) == 45
    assert whole.validation[: len(ended.validation)] == ended.validation
    assert (ended.penalty, max(ended.validation)) == (whole.penalty, max(whole.validation))


def test_the_path_ends_where_weaker_penalties_change_nothing(generator, monkeypatch):
    features, labels = overlapping(generator, n=600)
    ended = tuned_logistic(features, labels)
    monkeypatch.setattr("care.evaluate.features.tuned_logistic.SETTLED", 0.0)
    whole = tuned_logistic(features, labels)
    assert len(ended.validation) < len(whole.validation) == 45
    assert set(whole.validation[len(ended.validation) :]) == {ended.validation[-1]}
    assert torch.equal(ended.classifier.weight, whole.classifier.weight)


def test_every_penalty_and_the_refit_are_told(generator):
    features, labels = overlapping(generator)
    told = []
    fitted = tuned_logistic(features, labels, penalties=[1.0, 10.0, 100.0], tick=lambda *words: told.append(words))
    assert len(fitted.validation) == 3
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_class_of_which_all_rows_are_held_out_is_learned_by_the_refit(generator):
    labels = torch.arange(90) % 3
    features = torch.eye(3)[labels] + 0.1 * torch.randn(90, 3, generator=generator)
    fitted = tuned_logistic(features, labels, heldout=(labels == 2) | (torch.arange(90) < 20))
    assert max(fitted.validation) < 0.5
    assert torch.equal(fitted.predict(features), labels)


@pytest.mark.parametrize(
    ("labels", "heldout", "penalties", "message"),
    [
        ([0, 1, 2, 3], None, (1.0,), "to choose a penalty, a class needs two training rows"),
        ([0, 0, 0, 0], None, (1.0,), "at least two classes"),
        ([0, 0, 1, 1], [True, True, True, True], (1.0,), "must select some rows but not all"),
        ([0, 0, 1, 1], [False, False, False, False], (1.0,), "must select some rows but not all"),
        ([0, 0, 1, 1], None, (), "penalties must be one or more positive numbers"),
        ([0, 0, 1, 1], None, (1.0, 0.0), "penalties must be one or more positive numbers"),
    ],
)
def test_mistakes_are_named(labels, heldout, penalties, message):
    rows = None if heldout is None else torch.tensor(heldout)
    with pytest.raises(ValueError, match=message):
        tuned_logistic(torch.eye(4), torch.tensor(labels), rows, penalties)


def test_nearly_dependent_features_take_no_longer_at_weak_penalties(monkeypatch):
    """Where products in float32 are too rough for conjugate gradients: seen to take 30,000 for each penalty."""
    generator = torch.Generator().manual_seed(0)
    labels, few = torch.randint(5, (400,), generator=generator), torch.randn(400, 4, generator=generator)
    mixed, noise = torch.randn(4, 20, generator=generator), torch.randn(400, 20, generator=generator)
    features = (few @ mixed + 0.02 * noise - 2).relu()
    counts, curve = [], Objective.curve
    monkeypatch.setattr(Objective, "curve", lambda *args: (counts.append(1), curve(*args))[1])
    path = list(_regularization_path(features, labels, [10.0**-k for k in range(9)]))
    assert all(classifier.converged for classifier in path)
    assert len(counts) < 300 * len(path)
