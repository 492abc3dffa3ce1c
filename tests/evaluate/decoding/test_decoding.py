import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.preprocessing import StandardScaler

from care.data import Samples, generate_shapes
from care.evaluate.decoding.decode import factor_r2, parameter_r2
from care.evaluate.decoding.r2 import r2_units, weighted_units
from care.evaluate.decoding.ridge import PENALTIES, fit_ridge, ridge_predictions
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


@pytest.mark.parametrize("r", [2, 4])
def test_all_rows_of_an_image_are_left_out_together(r, generator):
    """Rows of an image are near copies with one target: left out one by one, they would call for no penalty."""
    X = torch.randn(15, 1, 8, generator=generator) + 0.1 * torch.randn(15, r, 8, generator=generator)
    X, Y = X.flatten(0, 1).double(), torch.randn(15, 3, generator=generator).double().repeat_interleave(r, dim=0)
    Z, images = StandardScaler().fit_transform(X.numpy()), np.arange(15).repeat(r)
    errors = np.zeros((len(PENALTIES), 3))
    for k, penalty in enumerate(PENALTIES):
        for rest, out in LeaveOneGroupOut().split(Z, groups=images):
            fitted = Ridge(alpha=penalty, solver="svd").fit(Z[rest], Y[rest].numpy())
            errors[k] += ((Y[out].numpy() - fitted.predict(Z[out])) ** 2).sum(0)
    penalty = fit_ridge(X, Y, rows_per_image=r).penalty
    assert penalty.tolist() == np.array(PENALTIES)[errors.argmin(0)].tolist()
    assert (fit_ridge(X, Y).penalty < penalty).any()


def test_half_precision_features_are_fitted_in_float64(generator):
    X, Y = problem(60, 5, generator, noise=(1.0,))
    X = X.bfloat16()
    assert torch.equal(fit_ridge(X[:40], Y[:40]).predict(X[40:]), fit_ridge(X[:40].double(), Y[:40]).predict(X[40:]))


def test_a_planted_parameter_is_found_and_an_unrelated_one_is_not(generator):
    """The augmentation moves h(x) by θ along one direction: only the pair decodes θ, and nothing another draw."""
    H = torch.randn(2000, 16, generator=generator)
    theta, unrelated = torch.randn(2, 2000, 1, generator=generator)
    direction = torch.randn(16, generator=generator)
    everywhere = torch.ones(2000, dtype=torch.bool)
    planted = Target(theta, everywhere)
    scores = parameter_r2(
        H, H + theta * direction, {"planted": planted, "unrelated": Target(unrelated, everywhere)}, "linear"
    )
    assert scores["planted"] > 0.9999
    assert abs(scores["unrelated"]) < 0.02
    assert parameter_r2(H, H, {"planted": planted}, "linear")["planted"] < 0.02
    # h(a x) alone knows θ up to h(x), which is noise here: R² = 1 / (1 + 1/‖direction‖²).
    alone = 1 / (1 + 1 / float(direction.square().sum()))
    assert factor_r2(H + theta * direction, {"planted": planted})["planted"] == pytest.approx(alone, abs=0.02)
    assert parameter_r2(H, H, {}) == {}


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


def test_the_numbers_of_images_are_those_of_r2(generator):
    """Their mean is scikit-learn's R²; without one image, R² changes as it does without its number."""
    Y = torch.randn(400, 2, generator=generator).double()
    predicted, known = 0.6 * Y + 0.5 * torch.randn(400, 2, generator=generator), torch.arange(400) % 4 > 0

    def r2(rows):
        error, spread = (Y[rows] - predicted[rows]).square().sum(), (Y[rows] - Y[rows].mean(0)).square().sum()
        return 1 - float(error / spread)

    units = r2_units(Y, predicted, known)
    assert units.isnan().tolist() == (~known).tolist()
    assert units.nanmean().item() == pytest.approx(r2(known))
    one = r2_units(Y[:, :1], predicted[:, :1]).mean().item()
    assert one == pytest.approx(r2_score(Y[:, 0], predicted[:, 0]))
    for i in (1, 2, 3):
        rest = known & (torch.arange(400) != i)
        assert r2(rest) - r2(known) == pytest.approx((units[rest].mean() - units[known].mean()).item(), rel=0.05)


def test_weighted_units_are_the_derivative_of_the_weighted_mean(generator):
    """Also by what leaving out one image changes; an image of weight 0 may have no value."""
    values, weight = torch.rand(2, 400, generator=generator, dtype=torch.float64)
    weight[7], gone = 0, values.clone()
    gone[7] = torch.nan
    mean = float((weight * values).sum() / weight.sum())
    units = weighted_units(gone, weight)
    assert units.mean() == pytest.approx(mean)
    assert units[7] == mean
    without = [(weight * values).sum() - w * x for w, x in zip(weight, values, strict=True)]
    change = torch.stack(without) / (weight.sum() - weight) - mean
    torch.testing.assert_close(units - mean, -399 * change, rtol=0.02, atol=1e-12)


def test_a_target_that_does_not_vary_has_no_score(generator):
    H, everywhere = torch.randn(50, 4, generator=generator), torch.ones(50, dtype=torch.bool)
    constant, varying = Target(torch.full((50, 1), 0.1), everywhere), Target(H[:, :1], everywhere)
    nowhere = Target(H[:, :1], ~everywhere)
    for decoder in ("network", "bilinear", "linear"):
        scores = parameter_r2(H, H, {"constant": constant, "nowhere": nowhere, "varying": varying}, decoder)
        assert [name for name, r2 in scores.items() if math.isnan(r2)] == ["constant", "nowhere"]
    assert scores["varying"] > 0.99
    assert abs(factor_r2(0 * H, {"varying": varying})["varying"]) < 0.2


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
        parameter_r2(
            torch.zeros(5, 2), torch.zeros(5, 2), {"hue": Target(torch.zeros(4, 1), torch.ones(4, dtype=torch.bool))}
        )


def test_features_that_are_seldom_active_do_not_upset_r2(generator):
    """A unit that is almost 0 in all fitted rows has a tiny scale; R² was below −100 in one draw of ten."""
    n, known = 456, torch.ones(228, 1, dtype=torch.bool)
    for _ in range(10):
        y, X = torch.randn(n, 1, generator=generator), torch.randn(n, 128, generator=generator).sub(2.3).relu()
        X[:, 0] = y[:, 0] + torch.randn(n, generator=generator)  # R² of the population: 0.5
        predicted = ridge_predictions(X[:228], y[:228], known, X[228:])
        assert 1 - (predicted - y[228:]).square().sum() / (y[228:] - y[228:].mean()).square().sum() > -0.2
