"""What the demo says must be true."""

import pytest
import torch

from care import demo
from care.augment import apply, compose
from care.data import generate_chains
from care.geometry import Euclidean


@pytest.fixture(scope="module")
def chains():
    return generate_chains(200, seed=5, points=demo.POINTS)


def planted(clouds):
    """An encoder that turns with its input: the direction from the center to the first point."""
    return Euclidean().embed(clouds[:, 0])


def test_a_planted_equivariant_encoder_scores_zero(chains):
    row = demo.measure(planted, chains)
    assert row.heldout_ratio < 1e-9
    assert row.composition_defect < 1e-9
    assert row.gamma < 1e-9
    assert row.invariance > 0.5


def test_composition_measures_b_after_a(chains):
    """Rotations about different axes do not commute, so the wrong order would show."""
    generator = torch.Generator().manual_seed(1)
    a, b = (demo.POLICY.sample(1, (demo.POINTS,), generator).repeat(200) for _ in range(2))
    ba, ab = (apply(chains.points, order) for order in (compose(b, a), compose(a, b)))
    assert (planted(ba) - planted(chains.points) @ (b.rotation[0] @ a.rotation[0]).T).abs().max() < 1e-5
    assert (planted(ba) - planted(ab)).norm() > 1


def test_the_equivariance_loss_makes_rotations(chains):
    """A short training: with the loss, one rotation explains unseen clouds; without it, none does."""
    rows = {name: demo.measure(demo.train(demo.MODELS[name], 0, steps=100), chains, 4) for name in ("SimCLR", "CARE")}
    assert rows["CARE"].heldout_ratio < rows["SimCLR"].heldout_ratio / 3
    assert rows["CARE"].composition_defect < rows["SimCLR"].composition_defect / 3
    assert rows["CARE"].gamma < rows["SimCLR"].gamma / 5


def test_the_same_seed_gives_the_same_encoder(chains):
    a, b, c = (demo.train(demo.MODELS["CARE"], seed, steps=5)(chains.points) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)
