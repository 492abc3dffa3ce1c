"""`care retrieve`, from the command to the files, and what it says of mistakes."""

import dataclasses
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as tv
from typer.testing import CliRunner

from care import data, steer
from care.augment import PointPolicy, simclr
from care.cli import app
from care.cli.retrieve_setup import image_policy
from care.data import Samples
from care.evaluate import Embedder, EvaluationSetup
from care.evaluate.effects.families import Family
from care.geometry import Euclidean
from care.objective import policy_for
from care.pretrained import load_pretrained
from care.train import prepare, train
from care.train.trained import load_trained
from train.small import small_config, small_data

pytestmark = pytest.mark.usefixtures("few_steps", "coarse_pictures")

QUICK = ["--device", "cpu", "--k", "3", "--queries", "10", "--make", "hue=+0.1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run, and a learned rotation of it such as `care steer` leaves, without the measurement."""
    folder = tmp_path_factory.mktemp("retrieved")
    name = small_data(folder / "data")
    train(prepare(small_config(name, model="test_resnet", size=32, epochs=1), folder / "mine"))
    model, policy = load_pretrained(str(folder / "mine")), simclr(12)
    embedder = Embedder(
        lambda x: {"embedding": model.embed(x)["embedding"]},
        data.load(name, "train"),
        policy,
        "simclr",
        torch.device("cpu"),
    )
    statistics = steer.statistics_of(embedder, "embedding", [Family("all", policy, 4)])
    (folder / "mine" / "steering").mkdir()
    steer.save(steer.fit_rotation(statistics), folder / "mine" / "steering" / "rotation.safetensors")
    return folder / "mine"


def retrieve(run, *options):
    return CliRunner().invoke(app, ["retrieve", str(run), *QUICK, *options])


def test_retrieve_leaves_a_record_and_pictures(run):
    result = retrieve(run, "--query", "7")
    assert result.exit_code == 0, result.output
    assert "R(θ) f(q), learned rotation" in result.output
    assert "the mean of 10 queries" in result.output
    record = json.loads((run / "retrieval" / "retrieval.json").read_text())
    assert (record["query"], record["images"], record["k"], record["queries"]) == ("7", 20, 3, 10)
    for ending, least in (("png", 3000), ("svg", 300)):
        assert (run / "retrieval" / f"retrieval.{ending}").stat().st_size > least
    images = data.load(str(run.parent / "data"), "test").inputs
    others = [i for i in nearest(run, images, images[7]) if i != 7]
    assert record["one"]["found"]["identity"] == others[:3]


def test_a_picture_of_another_size_is_cut_to_the_size_of_the_others(run, tmp_path):
    """The middle of a wide picture, reduced to a third."""
    images = data.load(str(run.parent / "data"), "test").inputs
    large = torch.zeros(36, 60, 3, dtype=torch.uint8)
    large[:, 12:48] = (255 - images[7]).permute(1, 2, 0).repeat_interleave(3, 0).repeat_interleave(3, 1)
    Image.fromarray(large.numpy()).save(tmp_path / "large.png")
    result = retrieve(run, "--query", str(tmp_path / "large.png"), "--out", str(tmp_path / "found"))
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "found" / "retrieval.json").read_text())
    small = Image.fromarray(large.numpy()).resize((12, 12), Image.Resampling.BILINEAR, (12, 0, 48, 36))
    query = torch.from_numpy(np.array(small)).permute(2, 0, 1)
    assert record["one"]["found"]["identity"] == nearest(run, images, query)[:3]
    assert "class_precision" not in record["one"]
    assert "class_precision" in record["mean"]


def test_a_file_that_is_one_of_the_images_is_no_neighbor_of_its_own(run, tmp_path):
    images = data.load(str(run.parent / "data"), "test").inputs
    Image.fromarray(images[7].permute(1, 2, 0).numpy()).save(tmp_path / "seven.png")
    result = retrieve(run, "--query", str(tmp_path / "seven.png"), "--out", str(tmp_path / "found"))
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "found" / "retrieval.json").read_text())
    assert record["one"]["found"]["identity"] == [i for i in nearest(run, images, images[7]) if i != 7][:3]
    assert "class_precision" in record["one"]


def nearest(run, images, query, output="embedding"):
    """All images from the nearest to the farthest, seen at the size of the run's policy."""
    model, config = load_pretrained(str(run)), load_trained(run).config
    size = policy_for(config.equivariance_policy, config.size).size
    views = tv.resize(torch.cat([images, query[None]]) / 255, [size, size], antialias=True)
    with torch.no_grad():
        F = torch.nn.functional.normalize(model.embed(views)[output], dim=1)
    return (F[:-1] @ F[-1]).argsort(descending=True).tolist()


def test_of_few_queries_nothing_is_claimed(run, tmp_path):
    result = retrieve(run, "--queries", "3", "--out", str(tmp_path / "found"))
    assert result.exit_code == 0, result.output
    assert "too few queries for an interval" in " ".join(result.output.split())
    assert "nan" not in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--make", "color=1"], "unknown change 'color': choose one of brightness"),
        (["--make", "brightness=1"], "these changes have no effect"),
        (["--query", "20"], "there is no image 20: the 20 of the split are counted from 0"),
        (["--query", "nowhere.png"], "nowhere.png is not there: --query is a picture file, or the number of an image"),
        (["--query", __file__], "cannot be read as a picture"),
        (["--k", "20"], "--k must be less than the 20 images"),
        (["--rotation", "nowhere.safetensors"], "nowhere.safetensors does not exist: run care steer .* first"),
        (["--policy", "mocov2"], "was fitted to views of 1 of the picture, and those of mocov2 are 0.875"),
    ],
)
def test_mistakes_are_reported_in_one_line(run, options, words):
    result = retrieve(run, *options)
    assert result.exit_code == 2, result.output
    (line,) = result.output.strip().splitlines()
    assert re.search(words, line), line


def test_a_rotation_of_other_embeddings_is_refused(run, tmp_path):
    right = steer.load(run / "steering" / "rotation.safetensors")
    wrong = steer.LearnedRotation(right.names, right.center, torch.eye(5), torch.zeros(len(right.names), 5, 5))
    steer.save(wrong, tmp_path / "wrong.safetensors")
    result = retrieve(run, "--rotation", str(tmp_path / "wrong.safetensors"))
    assert result.exit_code == 2
    assert "rotates embeddings of 5 dimensions" in result.output


def test_neighbors_are_searched_in_the_output_that_is_rotated(run, tmp_path):
    """The identity on the backbone: its neighbors are those of the features."""
    right = steer.load(run / "steering" / "rotation.safetensors")
    d, zero = load_pretrained(str(run)).encoder.backbone.num_features, torch.zeros(len(right.names), 2, 2)
    identity = steer.LearnedRotation(right.names, right.center, torch.eye(d)[:, :2], zero, (), "backbone")
    steer.save(identity, tmp_path / "identity.safetensors")
    options = ["--query", "7", "--rotation", str(tmp_path / "identity.safetensors"), "--out", str(tmp_path / "found")]
    result = retrieve(run, *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "found" / "retrieval.json").read_text())["one"]["found"]
    images = data.load(str(run.parent / "data"), "test").inputs
    others = [i for i in nearest(run, images, images[7], "backbone") if i != 7]
    assert found["learned_rotation"] == found["identity"] == others[:3]


def test_a_rotation_of_an_output_that_is_not_there_is_refused(run, tmp_path):
    right = steer.load(run / "steering" / "rotation.safetensors")
    steer.save(dataclasses.replace(right, output="equivariant"), tmp_path / "other.safetensors")
    result = retrieve(run, "--rotation", str(tmp_path / "other.safetensors"))
    assert result.exit_code == 2
    assert "rotates the output equivariant, which" in result.output


def test_point_clouds_have_no_pictures():
    clouds = Samples(torch.zeros(4, 3, 3), torch.zeros(4, dtype=torch.long), ("one",))
    setup = EvaluationSetup(
        model="mine",
        embed=lambda x: {"embedding": x.flatten(1)},
        train=clouds,
        test=clouds,
        policy=PointPolicy(),
        policy_name="rotations",
        form=Euclidean(),
        device=torch.device("cpu"),
    )
    with pytest.raises(ValueError, match="care retrieve is for images"):
        image_policy(setup)
    with pytest.raises(ValueError, match="changes by name are for images"):
        steer.augmentation_of(setup.embedder(clouds), {"hue": 0.1})
