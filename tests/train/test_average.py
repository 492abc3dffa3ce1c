"""`ema`: what a run keeps is a moving average of all that the encoder and the steering are made of."""

import pytest
import torch
from small import small_config, small_data

import care
from care.train import prepare, train
from care.train.state import build_state
from care.train.step import Step
from care.train.trained import load_trained

STEERED = {"equivariance": "steering", "care_weight": 1.0, "steering_weight": 1.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


def test_it_is_the_literal_average_after_every_step(data, tmp_path):
    """Weights, generators, and the statistics of BatchNorm, without which the averaged weights are of no use."""
    config = small_config(data, ema=0.75, **STEERED)
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    step = Step(state, config, job.processes, job.steps_per_epoch)

    def online():
        parts = {"encoder": state.objective.encoder, "equivariance": state.objective.equivariance}
        return {f"{part}.{k}": v.double() for part, module in parts.items() for k, v in module.state_dict().items()}

    expected = online()
    for k in range(3):
        step([job.samples.inputs[16 * k : 16 * k + 16]], 0)
        now = online()
        expected = {name: 0.75 * value + 0.25 * now[name] for name, value in expected.items()}
    found = state.ema.state_dict()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if "num_batches_tracked" not in name:
            torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)
    moved = [name for name in found if name.endswith(("running_mean", "generators.free"))]
    assert moved
    assert all((found[name] != 0).any() for name in moved)


def test_the_average_is_what_is_saved(data, tmp_path):
    """With hardly any momentum it is nearly the encoder itself, in everything that a user sees of it."""
    images = torch.rand(20, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    found = {}
    for ema in (0.0, 1e-4, 0.9):
        train(prepare(small_config(data, epochs=2, ema=ema, **STEERED), tmp_path / str(ema)))
        found[ema] = care.load(tmp_path / str(ema))(images), load_trained(tmp_path / str(ema)).generators
    for plain, barely, much in zip(*found.values(), strict=True):
        assert (barely - plain).norm() < 0.01 * plain.norm()
        assert (much - plain).norm() > 0.01 * plain.norm()
