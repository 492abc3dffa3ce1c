import math

import numpy as np
import pytest
import torch
from scipy import stats

from care.evaluate.comparison import bootstrap
from care.evaluate.comparison.bootstrap import paired_difference


def two_models(n, generator, seeds=()):
    """Errors of two models on images that are hard or easy for both; the second is better by 0.1."""
    hard = torch.rand(n, generator=generator)
    noise = 0.2 * torch.randn(2, *seeds, n, generator=generator)
    return hard + noise[0], hard + noise[1].exp() - 1.1


def test_agrees_with_scipy(generator):
    a, b = two_models(60, generator)
    result = paired_difference(a, b, resamples=20_000, level=0.9)
    theirs = stats.bootstrap(
        (a.double().numpy(), b.double().numpy()), lambda a, b, axis: (b - a).mean(axis), paired=True, vectorized=True,
        confidence_level=0.9, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1),
    )  # fmt: skip
    # An estimated 5 % quantile of 20,000 normal draws is itself off by 0.015 standard errors; this allows for 4 of two.
    tolerance = 4 * 2**0.5 * 0.015 * theirs.standard_error
    assert result.difference == pytest.approx((b.double() - a.double()).mean().item(), abs=1e-12)
    assert result.low == pytest.approx(theirs.confidence_interval.low, abs=tolerance)
    assert result.high == pytest.approx(theirs.confidence_interval.high, abs=tolerance)
    assert (result.units, result.dropped) == (60, 0)


def test_covers_the_truth_as_often_as_it_says():
    """Skewed differences with a known mean of 1; 80 % of the intervals should hold it: 800 ± 3 × 13 of 1,000."""
    draws = np.random.default_rng(0).exponential(size=(1000, 80))
    intervals = [
        paired_difference(torch.zeros(80), torch.from_numpy(d).float(), 400, 0.8, i) for i, d in enumerate(draws)
    ]
    covered = sum(interval.low <= 1 <= interval.high for interval in intervals)
    assert 760 <= covered <= 840


def test_what_is_hard_for_both_cancels(generator):
    a, b = two_models(200, generator)
    paired, unpaired = (paired_difference(x, b) for x in (a, a[torch.randperm(200, generator=generator)]))
    assert paired.difference == pytest.approx(unpaired.difference, abs=1e-12)
    assert paired.high - paired.low < 0.75 * (unpaired.high - unpaired.low)


def test_seeds_are_averaged_and_images_resampled(generator):
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


def test_the_seed_decides_and_blocks_do_not_matter(generator, monkeypatch):
    a, b = two_models(30, generator)
    once = paired_difference(a, b, seed=4)
    assert once != paired_difference(a, b, seed=5)
    monkeypatch.setattr(bootstrap, "DRAWS_AT_ONCE", 1000)
    state = torch.get_rng_state()
    again = paired_difference(a, b, seed=4)
    assert torch.equal(state, torch.get_rng_state())
    assert (again.low, again.high) == pytest.approx((once.low, once.high), abs=1e-12)


@pytest.mark.parametrize(("b", "difference", "units"), [([math.nan, 3.0], 2.0, 1), ([math.nan] * 2, math.nan, 0)])
def test_too_few_units_have_no_interval(b, difference, units):
    result = paired_difference(torch.ones(2), torch.tensor(b))
    assert result.difference == pytest.approx(difference, nan_ok=True)
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    assert (result.units, result.dropped) == (units, 2 - units)


@pytest.mark.parametrize(("units", "known"), [(5, False), (6, True)])
def test_an_interval_needs_six(units, known, generator):
    a, b = torch.randn(2, units, generator=generator)
    assert math.isfinite(paired_difference(a, b).low) == known


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("b", "settings", "message"),
    [
        (torch.zeros(4), {}, r"got \[3\] and \[4\]"),
        (torch.tensor([0.0, 1.0, math.inf]), {}, "infinite"),
        (torch.zeros(3), {"level": 95}, "inside"),
        (torch.zeros(3), {"resamples": 0}, "at least 1"),
    ],
)
def test_mistakes_are_told(b, settings, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(torch.zeros(3), b, **settings)
