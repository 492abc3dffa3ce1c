"""Runs that are killed, stopped, spoiled, short of disk, and begun twice, against runs that were not."""

import os
import re
import subprocess

import pytest
import torch
from small import mounted, same_state, small_config, small_data
from typer.testing import CliRunner
from watched import StopAfter, progress

from care.cli import app
from care.objective import Objective, Term
from care.randomness import epoch_order
from care.train import Interrupted, prepare, train
from care.train.checkpoint import load_latest
from care.train.finite import FiniteCheck
from care.train.state import build_state
from care.train.step import Step
from faults.driver import kill_often, same_run

pytestmark = pytest.mark.usefixtures("coarse_pictures")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


@pytest.mark.faults  # two minutes; kills at every call of a save are in test_kills.py
def test_five_kills_in_a_row_equal_none(data, tmp_path):
    """SIGKILL at random moments and within saves; while it trains, another run into its folder is refused."""
    config = small_config(data, epochs=30, equivariance="care", care_weight=3.0, evaluate_every=30)
    (tmp_path / "config.toml").write_text(config.to_toml())
    train(prepare(config, tmp_path / "whole"))  # first: what it loads may take longer than the other run trains

    def second_run():
        with pytest.raises(ValueError, match=r"another run is writing to .*killed: wait for it"):
            prepare(config, tmp_path / "killed", resume=True)

    faults = kill_often(tmp_path, kills=5, saves=3, seconds=0.1, seed=0, meanwhile=second_run)
    assert faults.within_a_save >= 1
    assert faults.resumed_after[-1] > faults.resumed_after[0]
    train(prepare(config, tmp_path / "killed", resume=True))
    assert same_run(tmp_path / "whole", tmp_path / "killed")


def test_resume_reads_no_image_of_the_steps_before(data, tmp_path):
    """Which rows a run reads for its steps, noted by the data: stopped after step 4, it reads those of 5 and later."""
    config = small_config(data, epochs=2, evaluate_every=2)
    job, whole = progress(prepare(config, tmp_path / "whole"))
    train(job)
    with pytest.raises(Interrupted):
        train(prepare(config, tmp_path / "stopped"), StopAfter(4))
    job, resumed = progress(prepare(config, tmp_path / "stopped", resume=True))
    train(job)
    assert [len(rows) for rows in whole[:6]] == 6 * [16]
    assert whole[:3] == [rows.tolist() for rows in epoch_order(48, config.seed, 0).split(16)]
    assert resumed == whole[4:]


def test_an_image_is_augmented_differently_in_every_epoch(data, tmp_path):
    """The views that the network saw of each of 16 images in three epochs."""
    seen = []

    def look(module, views):
        if isinstance(module, Objective):
            seen.append(views[0][0].inputs.detach().clone())

    config = small_config(data, limit=16, evaluate_every=3)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        train(prepare(config, tmp_path / "run"))
    finally:
        hook.remove()
    by_image = [views[epoch_order(16, config.seed, epoch).argsort()] for epoch, views in enumerate(seen)]
    assert len(by_image) == 3
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert (by_image[first] - by_image[second]).abs().amax(dim=(1, 2, 3)).min() > 0.01


def kept(state):
    """All that a step changes and a checkpoint keeps, but for BatchNorm's statistics, which are of the forward pass."""
    average = {f"average {name}": p for name, p in state.ema.named_parameters()}
    adam = {f"adam {i} {k}": v for i, s in state.optimizer.state_dict()["state"].items() for k, v in s.items()}
    tensors = dict(state.objective.named_parameters()) | {"queue": state.objective.method.queue} | average | adam
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@pytest.mark.parametrize("spoiled", ["loss", "gradient"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_step_that_is_not_finite_changes_nothing(spoiled, value, data, tmp_path):
    """In the second step the loss, or only its gradient, is not finite: no weight, momentum, average or key moves."""
    config = small_config(data, method="mocov2", equivariance="care", care_weight=1.0, ema=0.9)
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    step = Step(state, config, job.processes, job.steps_per_epoch)
    step([job.samples.inputs[:16]], 0)
    if spoiled == "loss":
        state.objective.register_forward_hook(
            lambda _, views, terms: terms | {"info_nce": Term(terms["info_nce"].value * value)}
        )
    else:
        next(state.objective.encoder.parameters()).register_hook(lambda gradient: gradient * value)
    before = kept(state)
    terms = "loss, info_nce" if spoiled == "loss" else "^"
    with pytest.raises(FloatingPointError, match=rf"{terms}.*gradient_norm is not finite at step 2$") as caught:
        step([job.samples.inputs[16:32]], 0)
    assert ("loss" in str(caught.value)) == (spoiled == "loss")
    after = kept(state)
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_fp16_does_not_leave_out_steps_for_ever(data, tmp_path, monkeypatch):
    """A gradient that is never finite, under a loss that is: no scale of the loss helps, from 2¹⁶ down to the least."""
    monkeypatch.setattr("care.train.step.SMALLEST_SCALE", 2.0**14)
    config = small_config(data, precision="fp16")
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    step = Step(state, config, job.processes, job.steps_per_epoch)
    next(state.objective.encoder.parameters()).register_hook(lambda gradient: gradient * torch.nan)
    before = [p.clone() for p in state.objective.encoder.parameters()]
    with pytest.raises(FloatingPointError, match=r"the gradient is not finite at step 3, however the loss is scaled"):
        all(step([job.samples.inputs[:16]], 0) is None for _ in range(6))
    assert all(torch.equal(a, b) for a, b in zip(before, state.objective.encoder.parameters(), strict=True))


@pytest.mark.parametrize("asked", [True, False], ids=["every step", "before saving, as on a GPU"])
def test_an_epoch_whose_last_gradient_is_not_finite_is_not_saved(asked, data, tmp_path, monkeypatch):
    """All losses of the second epoch are finite; the weights after its last step would not be."""
    steps = []

    def spoil(module, views):
        steps.extend([module] if isinstance(module, Objective) else [])
        if isinstance(module, Objective) and len(steps) == 6:
            next(module.encoder.parameters()).register_hook(lambda gradient: gradient * torch.nan)

    if not asked:
        monkeypatch.setattr(FiniteCheck, "ask", lambda *_: None)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(spoil)
    try:
        with pytest.raises(FloatingPointError, match=r"^gradient_norm is not finite at step 6$"):
            train(prepare(small_config(data, epochs=2, evaluate_every=2), tmp_path / "run"))
    finally:
        hook.remove()
    assert load_latest(tmp_path / "run" / "checkpoints").step == 3


def care_train(*args, code):
    result = CliRunner().invoke(app, ["train", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 megabytes."""
    with mounted(tmp_path / "disk", megabytes=64):
        yield tmp_path / "disk"


def test_a_disk_that_fills_up_stops_the_command_and_room_lets_it_go_on(data, tmp_path, small_disk):
    """It is full at the second checkpoint: one sentence, exit code 1, nothing half-written, the first one loads."""
    config = small_config(data, epochs=2, evaluate_every=2)
    (tmp_path / "config.toml").write_text(config.to_toml())
    train(prepare(config, tmp_path / "whole"))
    size = sum(file.stat().st_size for file in (tmp_path / "whole" / "checkpoints").glob("*6/*"))
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    ballast.write_bytes(bytes(free - size * 3 // 2))
    told = care_train("--config", tmp_path / "config.toml", "--out", small_disk / "run", code=1)
    assert re.fullmatch(r"care: .*step-00000006 could not be written: No space left on device; .*--resume.*\n", told)
    left = {path.name for path in small_disk.rglob("*")}
    assert {"step-00000003", "config.toml"} <= left
    assert not [name for name in left if "incomplete" in name]
    assert load_latest(small_disk / "run" / "checkpoints").step == 3
    ballast.unlink()
    care_train("--resume", "--out", small_disk / "run", code=0)
    assert same_run(tmp_path / "whole", small_disk / "run")


def test_a_read_only_disk_stops_the_command_before_the_first_step(data, tmp_path, small_disk):
    """A new run, and one that is to be resumed."""
    config = small_config(data)
    (tmp_path / "config.toml").write_text(config.to_toml())
    with pytest.raises(Interrupted):
        train(prepare(config, small_disk / "begun"), StopAfter(1))
    before = {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file()}
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for options in (
        ("--config", tmp_path / "config.toml", "--out", small_disk / "new"),
        ("--resume", "--out", small_disk / "begun"),
    ):
        told = care_train(*options, code=2)
        assert re.fullmatch(r"care: .*(Read-only file system|the file system is read-only).*\n", told), told
    assert {path: path.read_bytes() for path in small_disk.rglob("*") if path.is_file()} == before


def test_resume_begins_what_is_not_there_and_nothing_else(data, tmp_path):
    """So a command that is started again after a fault is the command that was started first."""
    config = small_config(data, epochs=1)
    (tmp_path / "config.toml").write_text(config.to_toml())
    train(prepare(config, tmp_path / "whole"))
    care_train("--config", tmp_path / "config.toml", "--out", tmp_path / "run", "--resume", code=0)
    assert same_state(tmp_path / "whole", tmp_path / "run")
    assert "no run to resume in" in care_train("--resume", "--out", tmp_path / "nowhere", code=2)
    assert not (tmp_path / "nowhere").exists()
