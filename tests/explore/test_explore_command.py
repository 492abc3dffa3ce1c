"""`care explore` as a command: it serves until it is interrupted, and reports mistakes in one line."""

import dataclasses
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch
from exhibits import some_rotation
from typer.testing import CliRunner

from care.cli import app
from care.cli.explore_setup import explored_gallery
from care.explore import ExploreServer
from care.steer import save
from cli.world import make_run
from train.small import small_data


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Three runs on the same data, one with a learned rotation, one that sees the middle, and one on other data."""
    folder = tmp_path_factory.mktemp("explored")
    data = small_data(folder / "data")
    make_run(folder / "plain", data)
    make_run(folder / "steered", data)
    make_run(folder / "central", data, policy="mocov2", size=16)
    make_run(folder / "elsewhere", small_data(folder / "other"))
    (folder / "steered" / "steering").mkdir()
    save(some_rotation(d=8), folder / "steered" / "steering" / "rotation.safetensors")
    return folder


def test_the_command_serves_until_it_is_interrupted(world):
    shutil.copytree(world / "plain", world / "again" / "plain")
    command = [
        sys.executable,
        "-m",
        "care",
        "explore",
        "steered",
        "plain",
        "again/plain",
        "central",
        "--device",
        "cpu",
        "--k",
        "3",
    ]
    process = subprocess.Popen(command, cwd=world, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}", address)
        with urllib.request.urlopen(address.replace("/?", "/about?"), timeout=60) as response:
            about = json.load(response)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    named = [("steered", True), ("plain", False), ("again/plain", False), ("central", False)]
    assert [(m["name"], m["learned_rotation"]) for m in about["models"]] == named
    assert about["models"][1]["note"].startswith("plain has no learned rotation R(θ): care steer plain fits one")
    assert about["models"][3]["note"].endswith("This model sees the central 0.875 of a picture.")
    assert (about["images"], about["k"]) == (20, 3)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert "embedding by plain: done" in err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four runs on two data sets, one of them in a folder inside, and one that has not finished."""
    folder = tmp_path_factory.mktemp("offered")
    runs = folder / "runs"
    make_run(runs / "a", small_data(folder / "data"))
    for copy in ("b", "c", "sweep/a"):
        shutil.copytree(runs / "a", runs / copy)
    make_run(runs / "elsewhere", small_data(folder / "other"))
    shutil.copytree(runs / "a", runs / "half", ignore=lambda *_: ["model.safetensors"])
    return folder


def test_the_runs_of_a_folder_are_offered_and_the_first_two_embedded(folder):
    data = str(folder / "data")
    gallery = explored_gallery([str(folder / "runs")], data, None, images=20, k=3, device="cpu")
    names = [str(folder / "runs" / "a"), "b", "c", str(folder / "runs" / "sweep" / "a")]
    assert [model.name for model in gallery.models] == names
    assert set(gallery.indexes) == {0, 1}
    gallery.embed(3)
    assert gallery.indexes[3].name == names[3]
    assert torch.equal(gallery.indexes[3].F, gallery.indexes[0].F)


def test_a_run_that_cannot_be_read_is_left_out_and_the_code_of_a_method_is_not_run(folder, tmp_path, capfd):
    for name in ("a", "b", "damaged"):
        shutil.copytree(folder / "runs" / "a", tmp_path / "runs" / name)
    (tmp_path / "runs" / "damaged" / "config.toml").write_text("data = ")
    config = tmp_path / "runs" / "b" / "config.toml"
    config.write_text(re.sub(r'(?s)(\[method\]\nname = )"simclr"', rf'\1"{tmp_path}/mine.py:Mine"', config.read_text()))
    (tmp_path / "mine.py").write_text("raise RuntimeError('it was run')")
    assert "mine.py" in config.read_text()
    gallery = explored_gallery([str(tmp_path / "runs")], str(folder / "data"), None, images=20, k=3, device="cpu")
    assert [model.name for model in gallery.models] == ["a", "b"]
    assert re.search(r"care: \S+damaged is left out: \S+config.toml is not valid TOML", capfd.readouterr().err)


def test_named_models_are_embedded_and_the_folder_beside_them_is_offered(folder, monkeypatch):
    monkeypatch.chdir(folder)
    given = ["timm/test_resnet@random", "runs/c", "runs"]
    gallery = explored_gallery(given, str(folder / "data"), None, images=20, k=3, device="cpu")
    assert [model.name for model in gallery.models] == ["test_resnet@random", "c", "runs/a", "b", "runs/sweep/a"]
    assert set(gallery.indexes) == {0, 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("runs", "the runs were trained on .*data and on .*other: say which images to show, --data NAME"),
        ("data", "there is no finished run in data: care train --out data/NAME makes one"),
    ],
)
def test_a_folder_without_runs_or_with_runs_on_several_data_sets(folder, monkeypatch, given, words):
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match=words):
        explored_gallery([given], None, None, images=20, k=3, device="cpu")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nowhere", "nowhere does not exist; a model is a run folder"),
        (
            "plain elsewhere",
            r"the runs were trained on .*data and on .*other: say which images to show, --data NAME",
        ),
        ("timm/test_resnet@random", "these are no runs: say which images to show, --data NAME"),
        ("plain --data chains", "care explore shows images, and chains holds point clouds"),
        ("plain --split nosplit", "nosplit is not an image store"),
        ("plain --k 20", "k must be between 1 and the 19 other images there are, got 20"),
        ("plain --port {taken}", "port {taken} cannot be used .*address already in use.*: choose another --port"),
        ("plain --device gpu", "device must be auto, cpu, cuda, cuda:1 or mps"),
        ("damaged", "rotation.safetensors is damaged"),
        ("misfit", "the learned rotation of misfit is of 5 dimensions, and its embeddings have 8"),
        (
            "partial",
            "rotation of partial acts on the output equivariant, and the model has embedding, backbone: run care",
        ),
    ],
)
def test_mistakes_are_one_line(world, monkeypatch, line, words):
    monkeypatch.chdir(world)
    monkeypatch.setattr(ExploreServer, "serve", lambda *_: pytest.fail("no mistake was seen"))  # and not: wait forever
    monkeypatch.setattr(
        "care.cli.explore_setup.build_index", lambda *_: pytest.fail("the work began before it was seen")
    )
    for name in {"damaged", "misfit", "partial"} & {line}:
        (world / name / "steering").mkdir(parents=True, exist_ok=True)
        (world / name / "model.safetensors").write_bytes((world / "plain" / "model.safetensors").read_bytes())
        rotation = dataclasses.replace(some_rotation(d=5), output="equivariant" if name == "partial" else "embedding")
        save(rotation, world / name / "steering" / "rotation.safetensors")
    if line == "damaged":
        file = world / line / "steering" / "rotation.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with ExploreServer() as other:
        words = words.format(taken=other.server_port)
        command = ["explore", *line.format(taken=other.server_port).split()]
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        result = CliRunner().invoke(app, command, env={**os.environ, "COLUMNS": "500"})
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(number, handler)
    assert result.exit_code == 2, result.output
    assert re.search(words, result.output), result.output


def test_the_browser_is_started_without_the_token(world, monkeypatch):
    """Its arguments can be read by all users of the machine; the file that they name by this one alone."""
    opened = []

    def served(server, gallery):
        file = Path(urllib.request.url2pathname(opened[0].removeprefix("file://")))
        assert f"url={server.address}" in file.read_text()
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        opened.append(file)

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(ExploreServer, "serve", served)
    result = CliRunner().invoke(app, ["explore", str(world / "plain"), "--open", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "token" not in opened[0]
    assert not opened[1].exists()


def test_runs_that_held_out_different_pictures(tmp_path):
    data = small_data(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "test")
    for n in (10, 12):
        make_run(tmp_path / f"run{n}", data, validation=n)
    runs = [str(tmp_path / "run10"), str(tmp_path / "run12")]
    said = r"different samples of \S+data, --validation 10 of train and --validation 12 of train: .*, --split train$"
    with pytest.raises(ValueError, match=said):
        explored_gallery(runs, None, None, images=20, k=3, device="cpu")
    assert len(explored_gallery(runs, None, "train", images=20, k=3, device="cpu").models) == 2
    assert len(explored_gallery(runs[:1], None, None, images=20, k=3, device="cpu").models) == 1
