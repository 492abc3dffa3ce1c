import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from care.data import Samples, generate_shapes
from care.evaluate.decoding.decode import factor_r2, parameter_r2
from care.evaluate.decoding.ridge import PENALTIES, fit_ridge, ridge_r2
from care.evaluate.decoding.targets import Target, factor_targets


def problem(n, f, generator, noise=(0.1, 1.0, 10.0, 100.0)):
    """Features of very different sizes, one of them constant, and targets of growing noise."""
    X = torch.randn(n, f, generator=generator, dtype=torch.float64) @ torch.randn(f, f, generator=generator).double()
    X = X * torch.logspace(-3, 3, f, dtype=torch.float64) + torch.randn(f, generator=generator)
    clean = (X / X.std(0)) @ torch.randn(f, len(noise), generator=generator).double()
    X[:, 0] = 0.1
    return X, clean + 1e3 + torch.tensor(noise) * torch.randn(n, len(noise), generator=generator).double()


@pytest.mark.parametrize(("n", "f"), [(120, 10), (30, 29), (30, 30), (31, 30), (25, 80), (4, 5)])
def test_fits_agree_with_scikit_learn(n, f, generator):
    X, Y = problem(n + 40, f, generator)
    train, test = slice(0, n), slice(n, None)
    ours = fit_ridge(X[train], Y[train])
    scaler = StandardScaler().fit(X[train].numpy())
    theirs = RidgeCV(PENALTIES, alpha_per_target=True).fit(scaler.transform(X[train].numpy()), Y[train].numpy())
    assert ours.penalty.tolist() == pytest.approx(theirs.alpha_.tolist())
    predicted = theirs.predict(scaler.transform(X[test].numpy()))
    np.testing.assert_allclose(ours.predict(X[test]).numpy(), predicted, rtol=1e-6, atol=1e-6 * np.abs(predicted).max())
    r2 = r2_score(Y[test].numpy(), predicted, multioutput="raw_values")
    np.testing.assert_allclose(ridge_r2(X[train], Y[train], X[test], Y[test]).numpy(), r2, rtol=1e-6, atol=1e-6)
    assert len(set(ours.penalty.tolist())) > 1  # the targets really call for different penalties


@pytest.mark.parametrize(("n", "f"), [(20, 6), (12, 30)])
def test_the_penalty_has_the_least_error_when_rows_are_really_left_out(n, f, generator):
    X, Y = problem(n, f, generator)
    Z = StandardScaler().fit_transform(X.numpy())
    errors = np.zeros((len(PENALTIES), Y.shape[1]))
    for k, penalty in enumerate(PENALTIES):
        for i in range(n):
            rest = np.arange(n) != i
            fitted = Ridge(alpha=penalty, solver="svd").fit(Z[rest], Y[rest].numpy())
            errors[k] += (Y[i].numpy() - fitted.predict(Z[i : i + 1])[0]) ** 2
    assert fit_ridge(X, Y).penalty.tolist() == np.array(PENALTIES)[errors.argmin(0)].tolist()


def test_half_precision_features_are_fitted_in_float64(generator):
    X, Y = problem(60, 5, generator, noise=(1.0,))
    X = X.bfloat16()
    assert torch.equal(
        ridge_r2(X[:40], Y[:40], X[40:], Y[40:]), ridge_r2(X[:40].double(), Y[:40], X[40:].double(), Y[40:])
    )


def test_a_planted_parameter_is_found_and_an_unrelated_one_is_not(generator):
    """The augmentation moves h(x) by θ along one direction: only the pair decodes θ, and nothing another draw."""
    H = torch.randn(2000, 16, generator=generator)
    theta, unrelated = torch.randn(2, 2000, generator=generator)
    direction = torch.randn(16, generator=generator)
    H_a = H + theta[:, None] * direction
    scores = parameter_r2(H, H_a, {"planted": theta, "unrelated": unrelated})
    assert scores["planted"] > 0.9999
    assert abs(scores["unrelated"]) < 0.02
    assert parameter_r2(H, H, {"planted": theta})["planted"] < 0.02
    # h(a x) alone knows θ up to h(x), which is noise here: R² = 1 / (1 + 1/‖direction‖²).
    alone = 1 / (1 + 1 / float(direction.square().sum()))
    assert factor_r2(H_a, {"planted": Target(theta[:, None], theta < 99)})["planted"] == pytest.approx(alone, abs=0.02)
    assert parameter_r2(H, H_a, {}) == {}


def test_columns_of_one_target_are_scored_together(generator):
    """Predictions of one column are perfect and of the other worthless: R² is the first one's share of the variance."""
    H = torch.randn(4000, 3, generator=generator)
    values = torch.stack([3 * H[:, 0], torch.randn(4000, generator=generator)], dim=1)
    everywhere = torch.ones(4000, dtype=torch.bool)
    assert factor_r2(H, {"both": Target(values, everywhere)})["both"] == pytest.approx(9 / 10, abs=0.01)


def test_rows_without_the_target_are_left_out(generator):
    H = torch.randn(500, 4, generator=generator)
    known = torch.arange(500) % 3 > 0
    values = torch.where(known, H[:, 0], 1e6)[:, None]
    everywhere = Target(H[:, 1:2], torch.ones(500, dtype=torch.bool))
    scores = factor_r2(H, {"part": Target(values, known), "all": everywhere})
    assert list(scores) == ["part", "all"]
    assert min(scores.values()) > 0.9999
    assert factor_r2(H, {"part": Target(values, everywhere.known)})["part"] < 0.5


def test_classes_in_turn_are_no_trap():
    """Fitted on the classes of even rows, the angle of the shapes of odd rows could not be decoded."""
    shapes = generate_shapes(400, seed=1, size=8)
    targets = factor_targets(Samples(shapes.images, shapes.labels, shapes.classes, shapes.factors))
    one_hot = torch.nn.functional.one_hot(shapes.labels).float()
    H = (one_hot[:, :, None] * targets["angle"].values[:, None, :]).flatten(1)
    assert factor_r2(H, targets)["angle"] > 0.99


def test_a_target_that_does_not_vary_has_no_score(generator):
    H = torch.randn(50, 4, generator=generator)
    scores = parameter_r2(H, H, {"constant": torch.full((50,), 0.1), "varying": H[:, 0]})
    assert math.isnan(scores["constant"])
    assert ridge_r2(H[:25], H[:25, :2], H[25:], torch.full((25, 2), 0.1)).isnan().all()
    assert scores["varying"] > 0.99
    assert ridge_r2(torch.zeros(9, 2), H[:9], torch.zeros(9, 2), H[:9]).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("X", "Y", "penalties", "message"),
    [
        (torch.zeros(1, 3), torch.zeros(1, 1), PENALTIES, "at least 2 rows"),
        (torch.full((4, 3), torch.nan), torch.zeros(4, 1), PENALTIES, "must be finite"),
        (torch.zeros(4, 3), torch.zeros(4, 1), (0.0, 1.0), "must be positive"),
        (torch.zeros(4, 3), torch.zeros(4, 1), (), "must be positive"),
    ],
)
def test_mistakes_in_a_regression_are_explained(X, Y, penalties, message):
    with pytest.raises(ValueError, match=message):
        fit_ridge(X, Y, penalties)


def test_targets_of_other_rows_are_refused(unchecked):
    with pytest.raises(ValueError, match="'hue' must have one row for each of 5 features"):
        parameter_r2(torch.zeros(5, 2), torch.zeros(5, 2), {"hue": torch.zeros(4)})
