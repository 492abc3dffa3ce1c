"""Validation samples cut from the training split: nothing is copied, and nothing changes by that."""

import dataclasses

import numpy as np
import pytest
import torch
from small import same_state, small_config, small_data
from typer.testing import CliRunner

from care.cli import app
from care.data import Samples, load, write_store
from care.data.readers import DataSource, Example
from care.train import Progress, Run, prepare, train
from care.train.state import channel_statistics


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


def in_memory(samples):
    return dataclasses.replace(samples, stored=samples.inputs.clone(), rows=None)


class Heard(Progress):
    def __init__(self):
        self.lines = []

    def say(self, *sentences):
        self.lines += sentences


def test_training_on_a_part_of_a_store_is_training_on_a_copy_of_it(data, tmp_path, monkeypatch):
    """And classes that gave fewer than they should are told."""
    config, heard = small_config(data, validation=13, limit=20, epochs=1), Heard()
    job = prepare(config, tmp_path / "copied")
    train(dataclasses.replace(job, samples=in_memory(job.samples), heldout=in_memory(job.heldout)))
    with monkeypatch.context() as patch:
        patch.setattr(Samples, "inputs", property(lambda self: pytest.fail("all inputs were copied")))
        patch.setattr(Samples, "take", lambda *_: pytest.fail("inputs were copied"))
        train(prepare(config, tmp_path / "mapped"), heard)
    assert same_state(tmp_path / "copied", tmp_path / "mapped")
    half = "2 of 2 classes have fewer than 26 samples, so half of each is held out"
    assert heard.lines == [f"{half}: 24 samples in all"]


def test_the_samples_are_the_last_of_each_class_and_the_first_of_the_others(data, tmp_path):
    whole = load(data)
    job = prepare(small_config(data, validation=3, limit=36), tmp_path / "run")
    held = sorted(i for label in (0, 1) for i in (whole.labels == label).nonzero()[:, 0].tolist()[-3:])
    rest = [i for i in range(len(whole)) if i not in held][:36]
    assert torch.equal(job.heldout.inputs, whole.inputs[held])
    assert torch.equal(job.samples.inputs, whole.inputs[rest])
    statistics = [channel_statistics(samples) for samples in (job.samples, in_memory(job.samples))]
    assert statistics[0] == statistics[1]


def few_held_out(folder, pictures=1):
    """A data set without classes, with this many test pictures."""
    for split, count in (("train", 24), ("test", pictures)):
        examples = (Example(np.full((3, 8, 8), i, np.uint8), -1) for i in range(count))
        write_store(folder / split, "gray", split, DataSource("made", (), 8, 8, count, examples))
    return str(folder)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("validation", "how"), [(1, "choose a larger `validation`"), (0, "add some")])
def test_one_sample_cannot_be_measured_and_is_refused_at_the_start(validation, how, tmp_path, capsys):
    config = small_config(few_held_out(tmp_path / "data"), validation=validation, epochs=1)
    with pytest.raises(ValueError, match=rf"^\S+data has 1 held-out sample, but measuring needs at least 2: {how}.*$"):
        prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    Run(tmp_path / "run").begin(config, resume=False).release()  # as an earlier version began it
    result = CliRunner().invoke(app, ["train", "--resume", "--out", str(tmp_path / "run")])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)
    assert "measuring needs at least 2: " in " ".join(result.output.replace("│", " ").split())


def test_two_samples_can_be_measured(tmp_path):
    train(prepare(small_config(few_held_out(tmp_path / "data"), validation=2, epochs=1), tmp_path / "run"))
    assert len(Run(tmp_path / "run").log()) == 1
