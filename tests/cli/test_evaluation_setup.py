"""What a command measures: the model, the data and the policy, with defaults from a run's configuration."""

import dataclasses
import re
import shutil

import pytest
import torch
from typer.testing import CliRunner

from care import export
from care.cli import app
from care.cli.evaluation_setup import ModelOptions, config_of, setup_of
from care.data import load
from care.objective import policy_for
from cli.world import make_run
from train.small import small_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    return make_run(folder / "mine", small_data(folder / "data", n=100))


def test_another_policy_makes_views_of_the_size_that_a_run_was_trained_on(run):
    setup = setup_of(ModelOptions(str(run), policy="simclr", device="cpu"))
    assert setup.policy_name == "simclr"
    assert setup.policy.size == policy_for(config_of(str(run)).policy, config_of(str(run)).size).size


def test_of_the_split_train_a_part_is_measured_and_nothing_fitted_to_it(run):
    said, whole = [], load(config_of(str(run)).data, "train")
    setup = setup_of(ModelOptions(str(run), split="train", device="cpu"), "needed", said.append)
    both = torch.cat([setup.train.inputs, setup.test.inputs])
    assert sorted(image.sum().item() for image in both.flatten(1)) == sorted(whole.inputs.flatten(1).sum(1).tolist())
    assert len(both.flatten(1).unique(dim=0)) == len(whole)
    assert len(setup.test) == pytest.approx(len(whole) / 5, abs=len(whole.classes))
    assert said == [f"measured on {len(setup.test)} samples of the split train, a fifth that nothing is fitted to"]


OTHERS = "timm/test_resnet@random"


@pytest.fixture
def only_test(run, tmp_path):
    """The data of the run without the split train."""
    shutil.copytree(run.parent / "data" / "test", tmp_path / "data" / "test")
    return str(tmp_path / "data")


@pytest.mark.usefixtures("unchecked")
def test_the_split_train_is_needed_only_by_what_is_fitted_to_it(only_test, monkeypatch):
    asked, said = ModelOptions(OTHERS, only_test, size=16, device="cpu"), []
    assert setup_of(asked, "used", said.append).train is None
    assert re.match("kNN on the split train is left out: .*train is not an image store", said[0])
    assert setup_of(asked, "unused", pytest.fail).train is None
    monkeypatch.setattr(
        "care.cli.evaluation_setup.load_pretrained", lambda *_, **__: pytest.fail("it loads the model first")
    )
    with pytest.raises(ValueError, match="train is not an image store"):
        setup_of(asked, "needed")
    for name, wrong in {"split": "nosplit", "policy": "simclear", "data": "shaps"}.items():
        with pytest.raises(ValueError, match=wrong):
            setup_of(dataclasses.replace(asked, **{name: wrong}), "unused")


def test_normalization_and_size_are_those_that_were_asked_for(run):
    asked = ModelOptions(
        OTHERS, str(run.parent / "data"), size=16, normalization=((0.5,) * 3, (0.1, 0.2, 0.3)), device="cpu"
    )
    setup = setup_of(asked)
    assert setup.policy.size == 16
    torch.testing.assert_close(setup.module.mean, torch.full((3,), 0.5))
    torch.testing.assert_close(setup.module.std, torch.tensor([0.1, 0.2, 0.3]))


def test_a_checkpoint_is_measured_like_its_run(run):
    (checkpoint,) = (run / "checkpoints").iterdir()
    ours, theirs = (setup_of(ModelOptions(str(path), device="cpu"), "unused") for path in (run, checkpoint))
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert theirs.model == f"mine-{checkpoint.name}"
    assert theirs.policy_name == ours.policy_name
    assert all(
        torch.equal(a, b) for a, b in zip(ours.embed(images).values(), theirs.embed(images).values(), strict=True)
    )


def test_what_is_measured_of_a_checkpoint_is_written_beside_those_of_runs(run, tmp_path, monkeypatch):
    """A checkpoint is deleted when newer ones are saved."""
    (checkpoint,) = (run / "checkpoints").iterdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("care.evaluate.evaluate_model", _not_yet)  # has no results to save
    CliRunner().invoke(app, ["evaluate", str(checkpoint), "--device", "cpu"])
    assert (tmp_path / f"evaluation-mine-{checkpoint.name}").is_dir()


def _not_yet(*_):
    raise KeyboardInterrupt


def test_what_is_measured_of_an_export_is_not_written_into_it(run, tmp_path, monkeypatch):
    """It is a folder, as a run is."""
    trained = make_run(tmp_path / "mine", str(run.parent / "data"), model="test_resnet")
    file, _ = export.export(trained, "huggingface", tmp_path / "published")
    before = sorted(path.name for path in file.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("care.evaluate.evaluate_model", _not_yet)
    CliRunner().invoke(app, ["evaluate", str(file), "--data", str(run.parent / "data"), "--device", "cpu"])
    assert sorted(path.name for path in file.iterdir()) == before
    assert (tmp_path / "evaluation-published").is_dir()
