"""Contrastive losses where every view of an image is in one place, at a right angle to all other images."""

import math

import pytest
import torch

from care.losses import dcl, hard_negatives, info_nce, leave_one_out, mocov3

N, COLD = 6, 0.02  # images; a temperature at which a right angle is far away: e^{-1/τ} is 2e-22
PLANTED = torch.eye(N, dtype=torch.float64)


@pytest.mark.parametrize(
    "loss",
    [
        lambda z, w: info_nce(z, w, temperature=COLD),
        lambda z, w: hard_negatives(z, w, temperature=COLD, class_prior=0.0),
        lambda z, w: mocov3(z, z, w, w, temperature=COLD),
        lambda z, w: leave_one_out(z, w[None], 0, temperature=COLD),
    ],
    ids=["info_nce", "hard_negatives", "mocov3", "leave_one_out"],
)
def test_it_reaches_zero_and_not_with_the_wrong_partner(loss):
    assert loss(PLANTED, PLANTED).item() == pytest.approx(0, abs=1e-12)
    assert loss(PLANTED, PLANTED.roll(1, 0)).item() > 1


def test_debiased_negatives_reach_zero_at_their_floor():
    """Of true negatives none are left, and N e^{-1/τ} is what counts of them."""
    found = hard_negatives(PLANTED, PLANTED, temperature=0.5, class_prior=0.5, concentration=0.0)
    negatives = 2 * N - 2
    assert negatives * math.exp(0) - 0.5 * negatives * math.exp(2) < 0
    assert found.item() == pytest.approx(math.log(1 + negatives * math.exp(-2) / math.exp(2)), rel=1e-12)
    cold = hard_negatives(PLANTED, PLANTED, temperature=COLD, class_prior=0.5)
    assert cold.item() == pytest.approx(0, abs=1e-12)


def test_dcl_has_no_zero_but_a_known_value():
    """Its positive is not in the denominator: −1/τ + log(2N − 2), however small that is."""
    for temperature in (0.5, COLD):
        expected = -1 / temperature + math.log(2 * N - 2)
        assert dcl(PLANTED, PLANTED, temperature=temperature).item() == pytest.approx(expected, rel=1e-12)
