"""`care train`, from the command to the run folder, on pictures of one's own."""

import json
import queue
import re
import threading

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

from care.cli import app, train_setup
from care.cli.train_setup import configuration
from care.data import load
from care.train import Config, keeping, recipe
from coarse_drawing import coarse_drawing
from train.small import small_data

SMALL = ["--model", "small_resnet", "--size", "16", "--batch-size", "8", "--embedding-dim", "8", "--head-width", "16"]


@pytest.fixture(scope="module", autouse=True)
def pictures():
    """Empty ones, of curves and of measurements."""

    def curves(log):
        figure = Figure(figsize=(1, 1))
        figure.add_subplot()
        return figure

    with coarse_drawing(only=()), pytest.MonkeyPatch.context() as patch:
        patch.setattr("care.report.curves_figure", curves)
        yield


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_a_long_search_for_pictures_is_said_by_the_first_process(tmp_path, monkeypatch):
    monkeypatch.setattr(train_setup, "SECONDS_OF_SILENCE", 0.0)
    said = queue.Queue()
    waiting = train_setup.patience(said.put)
    with waiting(tmp_path):
        assert said.get(timeout=30) == f"finding the pictures in {tmp_path} …"
    monkeypatch.setattr(threading.Timer, "start", lambda timer: timer.run())
    with waiting(tmp_path):  # once is enough
        assert said.empty()
    with waiting(tmp_path / "others"):
        assert said.get(timeout=30) == f"finding the pictures in {tmp_path / 'others'} …"
    monkeypatch.setenv("RANK", "1")
    with train_setup.patience(said.put)(tmp_path):
        assert said.empty()


def test_a_run_that_is_resumed_at_its_end_says_so(tmp_path):
    data, out = small_data(tmp_path / "data"), tmp_path / "run"
    train = ["train", "--out", out, "--data", data, "--device", "cpu", *SMALL]
    said = run(*train, "--epochs", 1)
    assert "already finished" not in said
    assert len(said.partition("\nepoch 1 ")[0].splitlines()) <= 15  # what was chosen, and what follows from it
    assert re.search(r"^steps +6, one epoch, 8 samples each$", said, re.MULTILINE)
    assert (out / "curves.png").exists()
    before = (out / "log.jsonl").read_bytes()
    assert "already finished: 1 epoch\n" in run("train", "--resume", "--out", out)
    assert (out / "log.jsonl").read_bytes() == before
    error = run("train", "--resume", "--out", out, "--epochs", 2, code=2)
    assert "epochs: 2 instead of 1, on which the cosine schedule depends" in error


def test_a_run_at_a_constant_rate_goes_on_for_longer(tmp_path):
    data, out = small_data(tmp_path / "data"), tmp_path / "run"
    train = ["train", "--out", out, "--data", data, "--device", "cpu", *SMALL, "--limit", 16]
    run(*train, "--epochs", 1, "--schedule", "constant")
    assert "already finished" not in run("train", "--resume", "--out", out, "--epochs", 2)
    assert "already finished: 2 epochs\n" in run("train", "--resume", "--out", out)


def test_keep_adds_coordinates_for_the_hue_once(tmp_path):
    data, out = small_data(tmp_path / "data"), tmp_path / "run"
    train = ["train", "--out", out, "--data", data, "--device", "cpu", *SMALL, "--keep", "hue", "--chunks", 2]
    train += ["--schedule", "constant", "--limit", 16]
    run(*train, "--epochs", 1, "--equivariant-weight", 0.3)
    config = Config.read(out / "config.toml")
    part = config.equivariance.settings
    assert (config.embedding_dim, config.equivariant_dim) == (8 + 16, 16)
    assert (part.care_weight, part.equivariant_weight) == (10.0, 0.3)
    assert (config.policy, config.equivariance_policy, config.measured_policy) == ("mocov2", "hue_only", "mocov2")
    assert "already finished" in run(*train, "--epochs", 1, "--equivariant-weight", 0.3, "--resume")
    run("train", "--resume", "--out", out, "--keep", "hue", "--equivariant-weight", 0.3, "--epochs", 2)
    assert Config.read(out / "config.toml").embedding_dim == 8 + 16
    error = run(*train[:-6], "--keep", "pose", code=2)
    assert "cannot keep pose: choose hue, photometric or crop, or several, such as hue,crop" in error


def test_keep_goes_with_recipes():
    without, settings = recipe("cifar10-sgd-simclr"), keeping("photometric", 128)
    assert without.replace(**settings).equivariant_dim == 16
    middle = {
        "chunks": 8, "equivariant_layer": "middle", "equivariant_depth": 3, "stop_gradient": True,
        "augself_weight": 0.05, "equivariance_fraction": 0.5,
    }  # fmt: skip
    kept = configuration({"epochs": 10}, "photometric", None, "cifar10-sgd-simclr", None)
    assert kept == without.replace(**settings, **middle, epochs=10)
    kept = configuration({"stop_gradient": False, "chunks": 16}, "photometric", None, "cifar10-sgd-simclr", None)
    assert kept == without.replace(**settings, chunks=16)


@pytest.fixture
def unlabeled(tmp_path, monkeypatch, generator):
    """The data set `mine`: 60 small photos in one folder, without classes."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    (tmp_path / "photos").mkdir()
    for i in range(60):
        pixels = torch.randint(256, (20, 24, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(pixels.numpy()).save(tmp_path / "photos" / f"{i}.png")
    assert "60 images of 16 × 16 pixels, no classes\n" in run(
        "data", "prepare", "mine", "--from", tmp_path / "photos", "--pixels", 16
    )
    return "mine"


@pytest.mark.usefixtures("unchecked")
def test_photos_without_classes_are_prepared_trained_on_and_measured(unlabeled, tmp_path):
    samples = load(unlabeled)
    assert (samples.classes, samples.labels.unique().tolist()) == ((), [-1])
    assert "60 images, all checksums match" in run("data", "check", unlabeled)
    care = ["--equivariance", "care", "--chunks", 2]
    train = ["train", "--data", unlabeled, "--epochs", 1, *care, "--device", "cpu", *SMALL]
    out = tmp_path / "run"
    run(*train, "--out", out)  # 20 are held out by themselves
    (record,) = (json.loads(line) for line in (out / "log.jsonl").read_text().splitlines())
    assert record["knn"] is None
    assert record["heldout_ratio"] > 0
    quick = ["--augmentations", 2, "--device", "cpu"]
    run("measure", out, *quick, "--no-families", "--out", tmp_path / "measured")
    assert json.loads((tmp_path / "measured" / "measurement.json").read_text())["embedding"]["images"] == 20
    assert "no labels, so no probe and no kNN" in run("evaluate", out, *quick, "--out", tmp_path / "evaluated")


@pytest.mark.usefixtures("unlabeled")
def test_a_model_of_others_is_told_what_to_measure_on(tmp_path):
    command = ["measure", "timm/test_resnet@random", "--data", "mine", "--size", 32, "--augmentations", 1]
    assert "or measure a part of what there is: --split train" in run(*command, code=2)
    run(*command, "--split", "train", "--no-families", "--device", "cpu", "--out", tmp_path / "measured")
