"""A rotation R(θ) that was trained with the encoder, from `care train --equivariance steering` to `care steer`."""

import json

import pytest
import torch
from typer.testing import CliRunner

import care
from care import steer
from care.augment import apply, cifar10
from care.cli import app
from care.geometry import Euclidean
from care.losses import steering
from care.train import Run, prepare, train
from care.train.trained import load_trained
from train.small import small_config, small_data

pytestmark = pytest.mark.usefixtures("few_steps", "coarse_pictures")

SETTINGS = {"equivariance": "steering", "steering_weight": 2.0, "care_weight": 1.0, "epochs": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    train(prepare(small_config(small_data(folder / "data"), **SETTINGS), folder / "mine"))
    return folder / "mine"


def test_the_log_has_the_third_term(run):
    (record,) = Run(run).log()
    expected = record["info_nce"] + record["equivariance"] + 2 * record["steering"]
    assert record["loss"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("one_family_canonicalized")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_steer_measures_it_as_it_is_beside_a_refit(device, run, generator):
    """And its file holds the rotation of the loss: both give the same number."""
    result = CliRunner().invoke(app, ["steer", str(run), "--images", "20", "--augmentations", "2", "--device", device])
    assert result.exit_code == 0, result.output
    assert result.output.count("held-out ratio\n") == 2
    records = [json.loads((run / "steering" / f"{name}.json").read_text()) for name in ("steering", "trained")]
    assert [record["rank"] for record in records] == [8, 6]
    trained, policy = steer.load(run / "steering" / "trained.safetensors"), cifar10()
    images, (a, b) = torch.rand(10, 3, 12, 12), (policy.sample(10, (12, 12), generator) for _ in range(2))
    z1, z2 = (Euclidean().embed(care.load(run)(apply(images, p))) for p in (a, b))
    loss = steering(z1, z2, trained.coordinates(a), trained.coordinates(b), load_trained(run).generators)
    rotated = trained.rotate(trained.canonicalize(z2, b), a)
    torch.testing.assert_close((rotated - z1).square().sum(1).mean(), loss, rtol=1e-4, atol=1e-6)


def test_the_encoder_alone_is_loaded_as_always(run):
    assert care.load(run)(torch.rand(2, 3, 32, 32)).shape == (2, 8)
    assert "steering.generators" not in care.load(run).state_dict()
