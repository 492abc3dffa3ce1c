"""`care steer`, from the command to the files."""

import json

import pytest
from typer.testing import CliRunner

from care import steer
from care.augment import simclr
from care.cli import app
from care.train import prepare, train
from train.small import small_config, small_data

pytestmark = pytest.mark.usefixtures("few_steps", "coarse_pictures")

QUICK = ["--images", "30", "--augmentations", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steered")
    train(prepare(small_config(small_data(folder / "data"), epochs=1), folder / "mine"))
    return folder / "mine"


def test_steer_leaves_a_rotation_a_record_and_pictures(run, generator):
    result = CliRunner().invoke(app, ["steer", str(run), *QUICK])
    assert result.exit_code == 0, result.output
    assert "MRR of f(a(x)) among the views of x" in result.output
    printed = result.output.replace(str(run), "runs/mine")
    assert max(len(line) for line in printed.splitlines()) <= 80
    record = json.loads((run / "steering" / "steering.json").read_text())
    assert {"all", "crop", "hue", "gray"} <= set(record["families"])
    assert set(record["canonicalization"]) == {"brightness", "contrast", "saturation", "hue", "crop"}
    assert set(record["canonicalization"]["hue"]["class"]) == {"augmented", "canonical", "clean", "change"}
    assert "R(a)ᵀ z" in result.output
    assert record["output"] == "embedding"
    for ending, least in (("png", 3000), ("svg", 300)):
        assert (run / "steering" / f"steering.{ending}").stat().st_size > least
    rotation = steer.load(run / "steering" / "rotation.safetensors")
    assert rotation.matrix(simclr(12).sample(3, (12, 12), generator)).shape == (3, 8, 8)


@pytest.mark.usefixtures("one_family_canonicalized")
def test_products_of_colors_are_fitted_if_asked_for_to_the_whole_of_a_split_embedding(run):
    split = run.parent / "split"
    settings = {"equivariance": "split", "equivariant_dim": 3, "epochs": 1}
    train(prepare(small_config(str(run.parent / "data"), **settings), split))
    result = CliRunner().invoke(app, ["steer", str(split), *QUICK, "--second-order"])
    assert result.exit_code == 0, result.output
    assert "second order" in result.output
    record = json.loads((split / "steering" / "steering.json").read_text())
    assert (record["order"], record["output"], record["dimension"]) == (2, "embedding", 8)
    rotation = steer.load(split / "steering" / "rotation.safetensors")
    assert rotation.output == "embedding"
    squares = [first for first, second in rotation.products if first == second]
    assert squares == ["brightness", "contrast", "saturation"]
    assert rotation.generators[len(rotation.names) :].flatten(1).any(1).all()


def test_products_are_for_colors(tmp_path):
    shared = {"model": "deepset", "epochs": 1, "limit": 64, "batch_size": 16, "policy": "rotations"}
    config = small_config("chains", **shared)
    train(prepare(config, tmp_path / "clouds"))
    result = CliRunner().invoke(app, ["steer", str(tmp_path / "clouds"), *QUICK, "--second-order"])
    assert result.exit_code == 2
    assert "point clouds have none" in result.output


def test_an_output_that_the_model_does_not_have_is_refused(run):
    result = CliRunner().invoke(app, ["steer", str(run), *QUICK, "--output", "features"])
    assert result.exit_code == 2
    assert "--output must be one of embedding, backbone, got features" in result.output
