import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from care.evaluate.features import newton
from care.evaluate.features.logistic import cross_entropy_gradient, logistic_regression
from care.evaluate.features.newton import Objective


def clusters(generator, n=300, d=8, classes=4, noise=2.0):
    """Classes with Gaussian rows around random centers, every class present."""
    labels = torch.randint(classes, (n,), generator=generator)
    labels[:classes] = torch.arange(classes)
    centers = torch.randn(classes, d, generator=generator, dtype=torch.float64)
    return centers[labels] + noise * torch.randn(n, d, generator=generator, dtype=torch.float64), labels


def badly_scaled(generator):
    features, labels = clusters(generator, classes=3)
    return features * torch.logspace(-3, 3, 8, dtype=torch.float64) + torch.linspace(0, 100, 8), labels


def nearly_collinear(generator):
    features, labels = clusters(generator)
    return torch.cat([features, features[:, :3] + 1e-7 * features[:, 3:6], torch.ones(300, 1)], dim=1), labels


PROBLEMS = {
    "overlapping": clusters,
    "two classes": lambda generator: clusters(generator, classes=2),
    "separable": lambda generator: clusters(generator, noise=0.1),
    "separable in two": lambda generator: clusters(generator, classes=2, noise=0.1),
    "more features than rows": lambda generator: clusters(generator, n=60, d=120),
    "badly scaled": badly_scaled,
    "nearly collinear": nearly_collinear,
}


@pytest.mark.parametrize("limits", [newton._limits(False), newton._limits(True), (8, 1000, 8)], ids=str)
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_probabilities_are_those_of_scikit_learn(name, penalty, limits, generator, monkeypatch):
    """Also where the Hessian is inverted early and the residual looked at now and then, as on a GPU."""
    monkeypatch.setattr(newton, "_limits", lambda _: limits)
    features, labels = PROBLEMS[name](generator)
    ours = logistic_regression(features, labels, penalty)
    theirs = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    theirs.fit(features.numpy(), labels.numpy())
    assert ours.converged
    probabilities = ours.scores(features).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(features.numpy()), atol=1e-5)
    assert ours.predict(features).tolist() == theirs.predict(features.numpy()).tolist()


def test_units_do_not_matter_where_the_penalty_is_negligible(generator):
    features, labels = clusters(generator)
    features = features @ torch.randn(8, 8, generator=generator, dtype=torch.float64)
    scaled = features * torch.logspace(-8, 8, 8, dtype=torch.float64)
    ours, theirs = (logistic_regression(x, labels, penalty=1e-24) for x in (scaled, features))
    assert ours.converged
    probabilities, reference = ours.scores(scaled).softmax(1), theirs.scores(features).softmax(1)
    torch.testing.assert_close(probabilities, reference, rtol=0, atol=1e-5)


def test_solution_is_a_stationary_point_of_the_stated_objective(generator):
    features, labels = clusters(generator)
    fitted = logistic_regression(features, labels, 0.5)
    weight, bias = fitted.weight.clone().requires_grad_(), fitted.bias.clone().requires_grad_()
    log_probability = torch.log_softmax(features @ weight + bias, dim=1)[torch.arange(300), labels]
    (-log_probability.sum() + 0.5 / 2 * weight.square().sum()).backward()
    # At zero weights the entries of this gradient are near 100.
    assert weight.grad.abs().max() < 1e-3
    assert bias.grad.abs().max() < 1e-3


def test_hessian_as_a_matrix_is_that_of_autograd(generator):
    Z, labels = torch.randn(30, 4, generator=generator, dtype=torch.float64), torch.arange(30) % 3
    objective = Objective.of(Z, labels, 0.3 * torch.eye(4, dtype=torch.float64))
    θ = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    _, q = objective.gradient(θ.mT)
    literal = torch.autograd.functional.hessian(lambda θ: objective.value(θ.mT), θ).reshape(15, 15)
    biases = torch.arange(15) % 5 == 4
    literal[biases[:, None] & biases] += 1.0  # where equal scores change nothing
    assert torch.allclose(objective.hessian(q), literal, atol=1e-12)


def test_nearly_separable_classes_need_few_conjugate_gradients(generator, monkeypatch):
    """Seen to take ten times as many without the Hessian as the preconditioner."""
    labels = torch.arange(900) % 6
    X = torch.randn(900, 12, generator=generator) * torch.logspace(0, -3, 12) + 0.7 * F.one_hot(labels, 12)
    counts = []
    curve = Objective.curve
    monkeypatch.setattr(Objective, "curve", lambda *args: (counts.append(1), curve(*args))[1])
    fitted = logistic_regression(X, labels, 1e-5)
    assert fitted.converged
    dense = len(counts)
    monkeypatch.setattr(newton, "DENSE", 0)
    without = logistic_regression(X, labels, 1e-5)
    assert torch.allclose(fitted.scores(X).softmax(1), without.scores(X).softmax(1), atol=1e-4)
    assert dense < (len(counts) - dense) / 2


def test_constant_features_are_fitted_at_once():
    """0.1 has no exact mean in binary: the gradient at the minimum, where the fit begins, is not quite 0."""
    labels = torch.arange(12) % 3
    found = logistic_regression(torch.full((12, 5), 0.1), labels, 1.0)
    assert found.converged
    torch.testing.assert_close(found.scores(torch.rand(2, 5)).softmax(1), torch.full((2, 3), 1 / 3).double())


def test_without_enough_iterations_it_says_so(generator):
    features, labels = clusters(generator)
    stopped, finished = (logistic_regression(features, labels, 1.0, max_iterations=n) for n in (2, 1000))
    assert not stopped.converged
    assert stopped.gradient_norm > 1e-6 > finished.gradient_norm


def test_class_without_rows_has_probability_zero(generator):
    features, labels = clusters(generator, classes=3)
    labels = torch.tensor([0, 2, 4])[labels]
    fitted = logistic_regression(features, labels, 1.0, classes=6)
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(features.numpy(), labels.numpy())
    probabilities = fitted.scores(features).softmax(1).numpy()
    assert (probabilities[:, [1, 3, 5]] == 0).all()
    np.testing.assert_allclose(probabilities[:, [0, 2, 4]], theirs.predict_proba(features.numpy()), atol=1e-5)


def test_half_precision_features_are_fitted_in_float64(generator):
    features, labels = clusters(generator)
    rounded = features.bfloat16()
    ours, reference = (logistic_regression(x, labels, 1.0) for x in (rounded, rounded.double()))
    assert torch.equal(ours.weight, reference.weight)
    assert torch.equal(ours.predict(rounded), reference.predict(rounded.double()))


def test_works_where_gradients_are_switched_off(generator):
    features, labels = clusters(generator)
    with torch.no_grad():
        fitted = logistic_regression(features, labels, 1.0)
    assert torch.equal(fitted.weight, logistic_regression(features, labels, 1.0).weight)


def test_gradient_is_that_of_autograd(generator):
    weights = torch.randn(3, 5, 2 * 4, generator=generator, dtype=torch.float64, requires_grad=True)
    features = torch.randn(3, 7, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (3, 7), generator=generator)
    scores = (features @ weights).reshape(3, 7, 2, 4)
    loss = sum(F.cross_entropy(scores[seed, :, rate], labels[seed]) for seed in range(3) for rate in range(2))
    loss.backward()
    ours = cross_entropy_gradient(weights.detach(), features, F.one_hot(labels, 4).bool())
    torch.testing.assert_close(ours, weights.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("features", "labels", "penalty", "message"),
    [
        (torch.eye(4), torch.tensor([0, 1, 0, -1]), 1.0, "leave out those labeled -1"),
        (torch.full((4, 2), torch.nan), torch.tensor([0, 1, 0, 1]), 1.0, "finite"),
        (torch.eye(4), torch.tensor([0, 1, 0]), 1.0, r"\[4, 4\] and \[3\]"),
        (torch.ones(0, 2), torch.zeros(0, dtype=torch.int64), 1.0, "n ≥ 1"),
        (torch.eye(4), torch.tensor([0, 1, 0, 1]), 0.0, "penalty must be greater than 0"),
        (torch.eye(4), torch.tensor([1, 1, 1, 1]), 1.0, "at least two classes"),
        (torch.eye(4), torch.tensor([0, 1, 2, 3]), 1.0, "each below 3"),
    ],
)
def test_mistakes_are_named(features, labels, penalty, message, unchecked):
    with pytest.raises(ValueError, match=message):
        logistic_regression(features, labels, penalty, classes=3)
