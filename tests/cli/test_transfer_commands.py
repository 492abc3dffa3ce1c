"""`care transfer`, `care robustness`, and `care compare` of what the first leaves, from the command to the files."""

import json
import shutil

import pytest
import timm
from typer.testing import CliRunner

from care.cli import app
from care.evaluate import Transfer
from cli.world import make_run
from train.small import small_data

RANDOM = "timm/test_resnet@random"


def invoke(*words, code=0):
    result = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A data set of noise in two colors, and a run that was trained on it."""
    folder = tmp_path_factory.mktemp("transferred")
    make_run(folder / "mine", small_data(folder / "data", n=60))
    return folder


@pytest.fixture(scope="module")
def together(world):
    """What is said of a run and a model of others, with everything under one folder."""
    words = ("transfer", world / "mine", RANDOM, "--to", world / "data", "--size", 12, "--device", "cpu")
    return invoke(*words, "--out", world / "out")


def test_a_table_a_figure_and_a_record_per_model(world, together):
    assert "mine" in together.stdout
    assert "test_resnet@random" in together.stdout
    assert "noise: 2 classes, top-1" in together.stdout
    assert "10 % of the labels" in together.stdout
    assert "without few-shot tasks of noise: tasks of 5 ways and 1 shots need 5 classes" in together.stderr
    for ending in ("png", "svg", "txt"):
        assert (world / "out" / f"transfer.{ending}").stat().st_size > 200
    record = json.loads((world / "out" / "mine" / "transfer.json").read_text())
    assert record["data"]["noise"]["train_images"] == 60
    assert record["about"]["views"]["size"] == 12
    assert {"care", "torch", "commit", "hardware"} <= record["made"].keys()
    assert Transfer.load(world / "out" / "test_resnet-random").name == "test_resnet@random"
    assert not (world / "mine" / "transfer").exists()


def test_a_layer_is_put_beside_the_last_features(world, together):
    """Its record has another width, and a run's own transfer stays that of its last features."""
    words = ("transfer", RANDOM, "--to", world / "data", "--size", 12, "--device", "cpu", "--tasks", 0)
    result = invoke(*words, "--layer", "layer2", "--no-few-labels", "--out", world / "beside")
    assert "test_resnet@random with layer2" in result.stdout
    widths = [
        Transfer.load(world / folder).record["about"]["dimension"]
        for folder in ("out/test_resnet-random", "beside/test_resnet-random-with-layer2")
    ]
    theirs = timm.create_model("test_resnet")
    (second,) = (part["num_chs"] for part in theirs.feature_info if part["module"] == "layer2")
    assert widths == [theirs.num_features, theirs.num_features + second]
    result = invoke(*words, "--layer", "layer9", "--out", world / "none", code=2)
    assert "has no layer 'layer9'; its layers are" in result.stderr


def test_compare_reads_transfers_without_evaluations(world, together):
    one, other = world / "out" / "mine", world / "out" / "test_resnet-random"
    result = invoke("compare", one, other, "--out", world / "both")
    assert "TRANSFER TO NOISE" in result.stdout
    found = json.loads((world / "both" / "comparison.json").read_text())
    rows = {row["name"]: row for row in found["differences"]["test_resnet-random"]}
    assert set(rows) == {"all labels", "10 % of the labels", "1 % of the labels"}
    mine, theirs = (Transfer.load(folder).arrays["noise/all"].double() for folder in (one, other))
    assert rows["all labels"]["difference"] == pytest.approx((theirs - mine).mean().item())
    assert rows["all labels"]["units"] == 20


@pytest.mark.usefixtures("together")
def test_compare_says_what_was_not_made_alike(world):
    shutil.copytree(world / "out" / "mine", world / "other" / "seed")
    transfer = Transfer.load(world / "other" / "seed")
    Transfer({**transfer.record, "about": {**transfer.record["about"], "seed": 1}}, transfer.arrays).save(
        world / "other" / "seed"
    )
    result = invoke("compare", world / "out" / "mine", world / "other" / "seed", "--out", world / "no", code=2)
    assert "made with different settings: seed: 0 for mine, 1 for mine" in result.stderr


def test_a_run_keeps_its_transfer(world, monkeypatch):
    monkeypatch.chdir(world)
    result = invoke("transfer", "mine", "--to", "./data", "--images", 30, "--no-few-labels", "--tasks", 0)
    assert Transfer.load(world / "mine" / "transfer").data["noise"]["train_images"] == 30
    assert "few-shot" not in result.output
    assert "of the labels" not in result.output
    assert (world / "transfer" / "transfer.png").exists()


def test_robustness_on_what_the_run_was_trained_on(world):
    result = invoke("robustness", world / "mine", "--images", 40, "--device", "cpu", "--out", world / "robust")
    assert "corrupted, mean" in result.stdout
    record = json.loads((world / "robust" / "robustness.json").read_text())
    assert len(record["models"]["mine"]["corruptions"]["noise"]["top1"]) == 5
    assert record["about"]["test_images"] == 20
    assert (world / "robust" / "robustness.svg").exists()
