import math

import numpy as np
import pytest
import torch
from scipy import stats

from care.evaluate.comparison.paired import holm_adjusted, paired_difference
from care.evaluate.comparison.student import quantile, tails
from care.evaluate.decoding.r2 import r2_units


def two_models(n, generator, seeds=()):
    """Errors of two models on images that are hard or easy for both; the second is better by 0.1."""
    hard = torch.rand(n, generator=generator)
    noise = 0.2 * torch.randn(2, *seeds, n, generator=generator)
    return hard + noise[0], hard + noise[1].exp() - 1.1


@pytest.mark.parametrize("n", [3, 4, 60, 1001])
def test_agrees_with_scipy(n, generator):
    a, b = two_models(n, generator)
    result = paired_difference(a, b, level=0.9)
    theirs = stats.ttest_rel(b.double().numpy(), a.double().numpy())
    interval = theirs.confidence_interval(0.9)
    assert result.difference == pytest.approx((b.double() - a.double()).mean().item(), abs=1e-12)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert result.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-14)
    assert (result.units, result.dropped) == (n, 0)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 999, 20_000])
def test_students_distribution_is_scipys(freedom):
    for t in (0.0, 0.3, -2.0, 5.0, math.inf):
        assert tails(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-13)
    for level in (0.5, 0.95, 0.9999):
        assert quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


# What share of 20,000 intervals of 95 % holds the truth: for skewed differences, fewer than it says.
COVERAGE = {
    "normal": {3: 0.95, 5: 0.95, 8: 0.95, 20: 0.95, 200: 0.95},
    "exponential": {3: 0.89, 5: 0.88, 8: 0.9, 20: 0.92, 200: 0.945},
}


@pytest.mark.parametrize(("distribution", "n"), [(name, n) for name, by in COVERAGE.items() for n in by])
def test_covers_the_truth_as_often_as_it_says(distribution, n):
    draws = torch.from_numpy(getattr(np.random.default_rng(n), distribution)(size=(20_000, n)))
    means, halves = draws.mean(1), quantile(0.95, n - 1) * draws.std(1) / math.sqrt(n)
    lows, highs = (means - halves).tolist(), (means + halves).tolist()
    for i in range(10):
        interval = paired_difference(torch.zeros(n), draws[i])
        assert (interval.low, interval.high) == pytest.approx((lows[i], highs[i]))
    truth = float(distribution == "exponential")
    covered = ((means - truth).abs() <= halves).double().mean().item()
    assert covered == pytest.approx(COVERAGE[distribution][n], abs=0.007)


def test_the_interval_of_r2_covers_the_truth():
    """Two models, each with its own noise, on the same 60 images: the difference of their R² is 0.64 − 0.36."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        y, noise = rng.normal(size=(60, 1)), rng.normal(size=(2, 60, 1))
        a, b = (r2_units(*map(torch.from_numpy, (y, y + s * e))) for s, e in zip((0.8, 0.6), noise, strict=True))
        found = paired_difference(a, b)
        covered += found.low <= 0.64 - 0.36 <= found.high
    assert 0.91 <= covered / 300 <= 0.98


def test_holm_agrees_with_its_definition():
    """The smallest p is multiplied by their number, the next by one less … and none is below one before it."""
    assert holm_adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert holm_adjusted([]) == []


def test_corrected_differences_are_seldom_wrong():
    """Of 20 equal pairs, one or more is called different in at most 5 % of all tables; uncorrected, in 64 %."""
    p = stats.ttest_1samp(np.random.default_rng(0).normal(size=(2000, 20, 10)), 0, axis=2).pvalue
    assert (p.min(1) < 0.05).mean() == pytest.approx(0.64, abs=0.04)
    assert np.mean([min(holm_adjusted(table.tolist())) < 0.05 for table in p]) == pytest.approx(0.05, abs=0.015)


def test_what_is_hard_for_both_cancels(generator):
    a, b = two_models(200, generator)
    paired, unpaired = (paired_difference(x, b) for x in (a, a[torch.randperm(200, generator=generator)]))
    assert paired.difference == pytest.approx(unpaired.difference, abs=1e-12)
    assert paired.high - paired.low < 0.75 * (unpaired.high - unpaired.low)


def test_seeds_are_averaged_and_images_are_the_units(generator):
    a, b = two_models(50, generator, seeds=(3,))
    mean_a, mean_b = a.double().mean(0), b.double().mean(0)
    result, expected = paired_difference(a, b), paired_difference(mean_a, mean_b)
    for field in ("difference", "low", "high", "units"):
        assert getattr(result, field) == pytest.approx(getattr(expected, field), abs=1e-12)


@pytest.mark.parametrize("seeds", [(), (3,)])
def test_units_without_a_value_are_dropped_from_both(generator, seeds):
    a, b = two_models(40, generator, seeds)
    kept = torch.ones(40, dtype=torch.bool)
    kept[[3, 7, 30]] = False
    expected = paired_difference(a[..., kept], b[..., kept])
    a[..., 3], b[..., 30] = math.nan, math.nan
    a.view(-1, 40)[0, 7] = math.nan  # in one seed only
    result = paired_difference(a, b)
    assert (result.units, result.dropped) == (37, 3)
    assert (result.difference, result.low, result.high) == (expected.difference, expected.low, expected.high)


@pytest.mark.parametrize(("b", "difference", "units"), [([math.nan, 3.0], 2.0, 1), ([math.nan] * 2, math.nan, 0)])
def test_too_few_units_have_no_interval(b, difference, units):
    result = paired_difference(torch.ones(2), torch.tensor(b))
    assert result.difference == pytest.approx(difference, nan_ok=True)
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    assert (result.units, result.dropped) == (units, 2 - units)


@pytest.mark.parametrize(("units", "known"), [(2, False), (3, True)])
def test_an_interval_needs_three(units, known, generator):
    a, b = torch.randn(2, units, generator=generator)
    assert math.isfinite(paired_difference(a, b).low) == known
    assert math.isfinite(paired_difference(a, b).p) == known


def test_many_differences_that_are_all_the_same_are_certain_and_a_few_are_not():
    """By the sign test: 3 of 3 in one direction are not rare enough."""
    for n in (6, 20):
        result = paired_difference(torch.arange(float(n)), torch.arange(float(n)) + 0.5)
        assert (result.low, result.high) == (0.5, 0.5)
        assert result.p == stats.binomtest(n, n).pvalue
    same = paired_difference(torch.ones(30), torch.ones(30))
    assert (same.low, same.high, same.p) == (0, 0, 1)
    few = paired_difference(torch.tensor([0, 1 / 3, 2 / 3]).double(), torch.tensor([1 / 3, 2 / 3, 1]).double())
    assert few.difference == pytest.approx(1 / 3)
    assert math.isnan(few.low)
    assert math.isnan(few.p)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("b", "settings", "message"),
    [
        (torch.zeros(4), {}, r"got \[3\] and \[4\]"),
        (torch.tensor([0.0, 1.0, math.inf]), {}, "infinite"),
        (torch.zeros(3), {"level": 95}, "inside"),
    ],
)
def test_mistakes_are_told(b, settings, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(torch.zeros(3), b, **settings)
