"""What a training says before it begins."""

import dataclasses
from types import SimpleNamespace

import pytest
import timm
import torch

from care.cli.train_setup import configuration
from care.data import batches
from care.data.streamed import cache as caching
from care.train import default_config, prepare, recipe, recipes
from care.train.summary import Facts, summary, summary_text
from data.on_disk import write_files
from train.small import small_config, small_data

FACTS = Facts(
    samples=50_000,
    input_shape=(32, 32),
    classes=10,
    parameters=11_200_000,
    stem="cifar: a 3×3 convolution",
    steps_per_epoch=195,
    processes=1,
    device="cuda:0",
    precision="bfloat16",
    compiled=False,
    folder="runs/mine",
)


def test_what_was_chosen_and_what_follows_from_it():
    config = recipe("cifar10-care-simclr").replace(model="resnet18", epochs=100, ema=0.99, care_weight=0.5)
    assert summary(config, FACTS) == {
        "data": "cifar10, train: 50,000 pictures of 32 × 32 pixels, 10 classes",
        "model": "resnet18, 11,200,000 parameters; embeddings of 128 dimensions",
        "stem": "cifar: a 3×3 convolution",
        "method": "simclr: temperature 0.5, views 2",
        "equivariance": "care: λ 0.5, chunks 16",
        "views": "4 of each sample, 32 × 32 pixels: 2 of cifar10 for simclr, 2 of cifar10 for care",
        "steps": "100 epochs of 195 = 19,500, 256 samples each",
        "optimizer": "adam, learning rate 0.001 (usual for adam), constant, weight decay 1e-06",
        "computed": "on cuda:0 in bfloat16, as a CUDA graph, seed 0",
        "watched": "the test split; `validation` N watches samples cut from the training split instead",
        "also": "ema 0.99",
        "written to": "runs/mine; its config.toml has every setting",
    }


def test_what_keep_adds_has_views_of_the_method_and_of_its_own():
    config = configuration({"data": "cifar10"}, "hue", None, None, None)
    facts = Facts(50_000, (32, 32), 10, 11_000_000, "test", 390, 1, "cuda:0", "bfloat16", True, "x")
    found = summary(config, facts)
    assert found["equivariance"].startswith("split: ")
    assert {"λ 10", "κ 0.1", "w 0.05", "chunks 8", "stop_gradient True"} <= set(found["equivariance"][7:].split(", "))
    assert found["views"].startswith("6 of each sample, 24 × 24 pixels (later 32 × 32): ")
    assert found["views"].endswith(": 4 of small_images for simclr and split, 2 of hue_only for split")


def test_a_split_embedding_of_clouds_on_two_processes():
    chosen = {"equivariance": "split", "embedding_dim": 32, "accumulate": 2, "warmup_epochs": 3}
    config = default_config("chains", equivariant_dim=8, **chosen)
    facts = Facts(20_000, (64,), 0, 59_664, None, 78, 2, "cuda:1", "float32", True, "x")
    found = summary(config, facts)
    assert found["data"] == "chains, train: 20,000 clouds of 64 points, no classes"
    assert found["model"] == "deepset, 59,664 parameters; embeddings of 32 dimensions, of which 8 are equivariant"
    assert found["equivariance"] == "split: λ 30, chunks 16, equivariant_dim 8, κ 0.1, ω 1"
    assert found["views"] == "4 of each sample: 2 of rotations for simclr, 2 of rotations for split"
    assert found["steps"].endswith("256 samples each, in 2 processes and 2 micro-batches")
    assert found["optimizer"].startswith(
        "adam, learning rate 0.001 (usual for adam), constant after 3 epochs of warmup"
    )
    assert found["computed"] == "on cuda:1 in float32, compiled, as a CUDA graph, seed 0"


def test_views_that_serve_both_are_counted_once():
    shared = default_config("shapes", equivariance="care", equivariance_views="shared")
    assert summary(shared, FACTS)["views"] == "2 of each sample, 32 × 32 pixels: 2 of shapes for simclr and care"
    contrast = default_config("shapes", equivariance="care", contrast="all", equivariance_policy="hue_only")
    assert summary(contrast, FACTS)["views"].endswith("2 of shapes for simclr, 2 of hue_only for simclr and care")
    byol = default_config("shapes", method="byol", policy="byol", second_policy="byol_second", size=32)
    assert summary(byol, FACTS)["views"] == "2 of each sample, 32 × 32 pixels: 2 of byol and byol_second for byol"
    alone = summary(recipe("cifar10-ablation-equivariance"), FACTS)
    assert alone["views"] == "2 of each sample, 32 × 32 pixels: 2 of cifar10 for care"
    turned = summary(default_config("shapes", method="simclr", equivariance="essl"), FACTS)["views"]
    assert turned == "3 of each sample, 32 × 32 pixels: 2 of shapes for simclr, 1 of shapes in four turns for essl"


def test_no_experiment_takes_more_than_fifteen_lines_or_a_long_one():
    for config in recipes().values():
        lines = summary(config, FACTS)
        assert len(lines) <= 12
        assert max(map(len, lines.values())) < 160


def test_pictures_that_are_not_prepared_are_said_to_be_decoded():
    line = summary(default_config("shapes"), dataclasses.replace(FACTS, streamed=True))["data"]
    assert "pictures, decoded to 32 × 32 pixels while training, 10 classes" in line


@pytest.mark.parametrize(("classes", "words"), [(0, "no classes"), (1, "one class, so no kNN"), (2, "2 classes")])
def test_how_many_classes_there_are_is_said(classes, words):
    line = summary(default_config("shapes"), dataclasses.replace(FACTS, classes=classes))["data"]
    assert line.endswith(f", {words}")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_how_many_pictures_are_kept_is_said(tmp_path, monkeypatch):
    """Of those to train on, 16 of 22, ten have been decoded before; whole pictures of 12 pixels take 434 bytes."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(caching, "disk_usage", lambda folder: SimpleNamespace(total=40e9, free=5.24e9))
    folder, cache = write_files(tmp_path / "photos", 22), tmp_path / "kept"
    config = small_config(str(folder), validation=3, pixels=12, cache=str(cache))
    job = prepare(config, tmp_path / "run")
    try:
        list(batches(job.samples, [torch.arange(10)], "cpu", whole=True))
        lines = dict(line.split(maxsplit=1) for line in summary_text(job).splitlines())
    finally:
        job.lock.release()
    sizes = "all take 0.0 GB, and there is room for 1.2 more"
    assert lines["cache"] == f"{cache}: 10 of 16 pictures are decoded already; {sizes}"
    assert "cache" not in lines.get("also", "")


def test_what_is_watched_is_said():
    assert (
        summary(default_config("flowers102"), FACTS)["watched"] == "20 samples of each class, cut from train+val+test"
    )
    one = dataclasses.replace(FACTS, classes=0, watched="val")
    assert summary(default_config("x"), one)["watched"].startswith("the val split; ")
    assert summary(default_config("x", validation=100), one)["watched"] == "100 samples, cut from train"
    few = summary(default_config("shapes", validation=1), FACTS)["watched"]
    assert few == "1 sample of each class, cut from train"


def test_the_facts_are_those_of_the_run(tmp_path, monkeypatch):
    """The number of parameters is that of timm's network with its head; 48 pictures are 3 batches of 16."""
    monkeypatch.setenv("COLUMNS", "400")
    config = small_config(small_data(tmp_path / "data"), model="test_resnet", head_depth=1, head_batchnorm=False)
    job = prepare(config, tmp_path / "run")
    try:
        lines = dict(line.split(maxsplit=1) for line in summary_text(job).splitlines())
    finally:
        job.lock.release()
    network = timm.create_model("test_resnet", num_classes=0)
    count = sum(p.numel() for p in network.parameters()) + network.num_features * 8 + 8
    assert f" {count:,} parameters; " in lines["model"]
    assert lines["stem"].startswith("imagenet: a convolution of stride 2")
    assert lines["data"].endswith("data, train: 48 pictures of 12 × 12 pixels, 2 classes")
    assert lines["steps"] == "3 epochs of 3 = 9, 16 samples each"
    assert lines["computed"] == "on cpu in float32, seed 0"
    assert lines["watched"].startswith("the test split; ")
    assert lines["written"] == f"to    {tmp_path / 'run'}; its config.toml has every setting"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({}, "adam, learning rate 0.001 (usual for adam), constant"),
        (
            {"optimizer": "sgd", "batch_size": 512},
            "sgd, learning rate 0.12 (usual for sgd: 0.06 · batch / 256), constant",
        ),
        ({"optimizer": "lars"}, "lars, learning rate 0.3 (usual for lars: 0.3 · batch / 256), constant"),
        ({"optimizer": "lars", "learning_rate": 2.0}, "lars, learning rate 2, constant"),
    ],
)
def test_the_rule_behind_the_learning_rate_is_said(chosen, words):
    line = summary(default_config("cifar10", **chosen), FACTS)["optimizer"]
    assert line.startswith(words)
