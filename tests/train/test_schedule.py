import math

import numpy as np
import pytest
import torch

from care.train.schedule import learning_rate


@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (7, 0), (100, 10), (1000, 1), (50, 50)])
def test_warmup_is_a_line_and_the_rest_a_cosine(total, warmup):
    for step in range(total):
        if step < warmup:
            expected = 0.3 / warmup * (step + 1)
        else:
            expected = 0.3 * math.cos(math.pi / 2 * (step - warmup) / (total - warmup)) ** 2  # (1 + cos 2x)/2 = cos² x
        assert learning_rate(step, total, 0.3, warmup) == pytest.approx(expected, rel=1e-12)


def test_the_ends():
    assert learning_rate(0, 100, 0.3, 10) == pytest.approx(0.03)
    assert learning_rate(9, 100, 0.3, 10) == 0.3
    assert learning_rate(10, 100, 0.3, 10) == 0.3
    assert learning_rate(55, 100, 0.3, 10) == pytest.approx(0.15)
    assert learning_rate(100, 100, 0.3, 10) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("cosine", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=60)),
        ("constant", lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0)),
    ],
)
def test_equals_torch_without_warmup(kind, make):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.7)
    scheduler = make(optimizer)
    for step in range(60):
        ours = learning_rate(step, 60, 0.7, 0, kind)
        assert ours == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("total", [1, 7, 400])
def test_cooldown_is_constant_and_falls_over_the_last_quarter(total):
    expected = np.interp(np.arange(total) / total, [0, 0.75, 1], [0.3, 0.3, 0])
    assert [learning_rate(k, total, 0.3, 0, "cooldown") for k in range(total)] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["constant", "cooldown"])
def test_warmup_goes_before_every_schedule(kind):
    assert [learning_rate(k, 8, 1.0, 4, kind) for k in range(4)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(("step", "total"), [(-1, 10), (11, 10), (0, 0)])
def test_steps_outside_of_training_are_refused(step, total):
    with pytest.raises(ValueError, match=f"step {step} is not one of the {total} steps"):
        learning_rate(step, total, 0.1)


@pytest.mark.usefixtures("unchecked")
def test_senseless_schedules_are_refused():
    for warmup in (-1, 11):
        with pytest.raises(ValueError, match=f"{warmup} steps of warm-up do not fit"):
            learning_rate(0, 10, 0.1, warmup)
    with pytest.raises(ValueError, match="got 'linear'"):
        learning_rate(5, 10, 0.1, 0, "linear")
