"""What holds for rotations and measures whatever the points are."""

import hypothesis.strategies as st
import pytest
import scipy.linalg
import torch
from hypothesis import given

from care.geometry import (
    composition_error,
    displacement,
    gram_error,
    heldout_ratio,
    relative_equivariance,
    solve_wahba,
    wahba_error,
)
from properties.points import orthogonal, points


@st.composite
def pairs(draw, at_least=1):
    n, d = draw(st.integers(at_least, 9)), draw(st.integers(1, 6))
    return draw(points(n, d)), draw(points(n, d))


def error(F, F_a, R):
    return (F @ R.mT - F_a).square().sum()


@given(pairs(), st.sampled_from(["SO", "O"]))
def test_the_solution_is_in_the_group(pair, group):
    R = solve_wahba(*pair, group)
    torch.testing.assert_close(R @ R.mT, torch.eye(len(R), dtype=R.dtype), atol=1e-9, rtol=0)
    assert torch.linalg.det(R) > 0 or group == "O"


@given(pairs())
def test_it_is_as_good_as_scipys(pair):
    F, F_a = pair
    theirs, _ = scipy.linalg.orthogonal_procrustes(F.numpy(), F_a.numpy())
    best = error(F, F_a, torch.from_numpy(theirs).mT)
    scale = F.square().sum() + F_a.square().sum()
    assert (error(F, F_a, solve_wahba(F, F_a, "O")) - best).abs() <= 1e-9 * scale


@given(pairs(), st.data())
def test_no_rotation_does_better(pair, data):
    F, F_a = pair
    Q = data.draw(orthogonal(F.shape[1]))
    assert error(F, F_a, solve_wahba(F, F_a, "O")) <= error(F, F_a, Q) * (1 + 1e-9) + 1e-9
    if torch.linalg.det(Q) > 0:
        assert error(F, F_a, solve_wahba(F, F_a, "SO")) <= error(F, F_a, Q) * (1 + 1e-9) + 1e-9


@given(pairs(), st.data())
def test_turning_the_points_turns_the_solution(pair, data):
    """min_R ‖F Qᵀ Rᵀ − F_a Pᵀ‖ is solved by P R Qᵀ: the error is the same; so is R, where it is determined."""
    F, F_a = pair
    d = F.shape[1]
    P, Q = data.draw(orthogonal(d)), data.draw(orthogonal(d))
    scale = F.norm() + F_a.norm()
    torch.testing.assert_close(
        wahba_error(F @ Q.T, F_a @ P.T, "O"), wahba_error(F, F_a, "O"), atol=1e-9 * scale.item() + 1e-12, rtol=1e-6
    )
    values = torch.linalg.svdvals(F_a.T @ F)
    if values[-1] > 1e-3 * values[0] > 0:
        turned = solve_wahba(F @ Q.T, F_a @ P.T, "O")
        torch.testing.assert_close(turned, P @ solve_wahba(F, F_a, "O") @ Q.T, atol=1e-6, rtol=0)


@given(st.integers(1, 6), st.data())
def test_a_planted_rotation_explains_what_was_held_out(d, data):
    """The ratio is 0 for a planted element of O(d), NaN for the identity, and never negative."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    F = torch.randn(4 * d + 4, d, generator=generator, dtype=torch.float64)
    Q = data.draw(orthogonal(d))
    ratio = heldout_ratio(F, F @ Q.T, "O")
    moved = (F @ Q.T - F).norm() > 1e-6
    assert ratio < 1e-9 if moved else ratio.isnan()
    noisy = heldout_ratio(F, F @ Q.T + torch.randn(F.shape, generator=generator, dtype=F.dtype), "O")
    assert noisy >= 0


@given(pairs(at_least=2))
def test_measures_of_any_points_are_numbers_or_say_that_nothing_moved(pair):
    F, F_a = pair
    for measure in (displacement, gram_error, wahba_error):
        assert measure(F, F_a) >= 0
    for measure in (relative_equivariance, heldout_ratio):
        value = measure(F, F_a)
        assert value >= 0 or value.isnan()
        assert measure(F, F).isnan()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@given(pair=pairs(at_least=2), data=st.data())
def test_points_that_are_not_finite_are_refused_wherever_they_are(bad, pair, data):
    F, F_a = (points.clone() for points in pair)
    chosen = data.draw(st.sampled_from([F, F_a]))
    chosen[data.draw(st.integers(0, len(F) - 1)), data.draw(st.integers(0, F.shape[1] - 1))] = bad
    for measure in (solve_wahba, wahba_error, displacement, gram_error, relative_equivariance, heldout_ratio):
        with pytest.raises(ValueError, match="points must be finite"):
            measure(F, F_a)
    with pytest.raises(ValueError, match="points must be finite"):
        composition_error(F, F_a, F, F_a)
