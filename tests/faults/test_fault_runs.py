"""Fault runs at length: `uv run pytest -m faults -n0 -s`. What they print is in docs/reliability.md."""

import pytest

from care.train import prepare, train
from faults.driver import kill_often, same_run, start
from train.small import small_config, small_data

METHODS = {
    "SimCLR": {},
    "MoCo-v2 with queue": {"method": "mocov2", "equivariance": "care", "care_weight": 1.0},
    "CARE": {"equivariance": "care", "care_weight": 3.0, "ema": 0.9},
}


@pytest.mark.faults
@pytest.mark.parametrize("name", METHODS)
def test_twenty_kills_over_one_training_change_no_bit(name, tmp_path):
    """And the last start, which nobody kills, leaves what a run that was never killed leaves."""
    config = small_config(small_data(tmp_path / "data"), epochs=40, evaluate_every=40, **METHODS[name])
    (tmp_path / "config.toml").write_text(config.to_toml())
    faults = kill_often(tmp_path, kills=20, saves=5, seconds=0.05, seed=len(name))
    assert start(tmp_path).wait() == 0, (tmp_path / "output").read_text()
    train(prepare(config, tmp_path / "whole"))
    assert same_run(tmp_path / "whole", tmp_path / "killed")
    steps = ", ".join(map(str, faults.resumed_after))
    print(f"\n| {name} | {faults.kills} | {faults.within_a_save} | {steps} of 120 | {faults.seconds:.0f} s |")
    assert faults.within_a_save >= 5
    assert len(set(faults.resumed_after)) >= 10, "the kills were not spread over the training"
    assert faults.resumed_after[-1] >= 60, "the second half was never killed"
