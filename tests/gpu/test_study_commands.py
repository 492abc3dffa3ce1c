"""What is done with a trained encoder on a GPU: evaluate, compare, measure, steer, retrieve, explore, export."""

import json
import math
import re
import shutil
import signal
import urllib.request

import pytest
import timm
import torch
from safetensors.torch import load_file

import care
from gpu.commands import CARE, SMALL, invoke, run, start

pytestmark = pytest.mark.gpu

QUICK = ("--images", 40, "--augmentations", 2)


@pytest.fixture(scope="module")
def runs(gpu, photos, tmp_path_factory):
    """Two runs: SimCLR's and, with a learned rotation, CARE's."""
    folder = tmp_path_factory.mktemp("studied")
    for name, chosen in {"simclr": (), "care": CARE}.items():
        run(gpu, "train", "--data", photos, *SMALL, *chosen, "--epochs", 1, "--out", folder / name)
    run(gpu, "steer", folder / "care", *QUICK, "--rank", 8)
    return folder


def numbers(record):
    """Every number of a record, at any depth."""
    if isinstance(record, dict | list):
        values = record.values() if isinstance(record, dict) else record
        return [number for value in values for number in numbers(value)]
    return [record] if isinstance(record, float) else []


def check_record(file):
    record = json.loads(file.read_text())
    assert numbers(record)
    assert all(math.isfinite(number) for number in numbers(record))
    return record


def test_evaluate_and_compare(runs, gpu, tmp_path):
    output = run(gpu, "evaluate", runs / "care", *QUICK, "--probe-epochs", 2, "--seeds", 2)
    assert "linear probe (clean, 2 seeds)" in output
    assert check_record(runs / "care" / "evaluation" / "evaluation.json")["about"]["test_images"] == 40
    assert (runs / "care" / "evaluation" / "wahba-embedding.png").stat().st_size > 3000
    shutil.copytree(runs / "care" / "evaluation", tmp_path / "same")
    assert "compared with" in invoke("compare", runs / "care", tmp_path / "same", "--out", tmp_path / "both")
    check_record(tmp_path / "both" / "comparison.json")


def test_measure_a_model_of_others(gpu, photos, tmp_path):
    words = ("timm/resnet18@random", "--data", photos, "--split", "val", "--size", 64, "--no-families")
    output = run(gpu, "measure", *words, *QUICK, "--out", tmp_path / "measured")
    assert "held-out" in output
    assert check_record(tmp_path / "measured" / "measurement.json")["features"]["images"] == 40


def test_a_gpu_measures_what_a_cpu_does(runs, gpu, tmp_path):
    """With the same augmentations, drawn on the host, and the rounding of another machine."""
    found = []
    for device in (gpu, "cpu"):
        run(device, "measure", runs / "care", *QUICK, "--no-families", "--out", tmp_path / device)
        found.append(check_record(tmp_path / device / "measurement.json")["embedding"])
    for name in ("gamma", "heldout_ratio"):
        assert found[0]["families"]["all"][name] == pytest.approx(found[1]["families"]["all"][name], rel=0.02)


def test_steer(runs):
    record = check_record(runs / "care" / "steering" / "steering.json")
    assert {"all", "crop", "hue"} <= set(record["families"])
    assert (runs / "care" / "steering" / "steering.png").stat().st_size > 3000


def test_retrieve(runs, gpu):
    output = run(gpu, "retrieve", runs / "care", "--make", "hue=+0.1", "--queries", 10, "--k", 3)
    assert "R(θ) f(q), learned rotation" in output
    check_record(runs / "care" / "retrieval" / "retrieval.json")


def ask(address, question):
    """The answer of the explorer to a question of its page."""
    headers = {"Content-Type": "application/json", "Origin": address.rstrip("/")}
    request = urllib.request.Request(f"{address}answer", json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_explore_answers_until_it_is_interrupted(runs, gpu):
    with start("explore", "care", "simclr", "--k", 3, "--device", gpu, cwd=runs) as process:
        try:
            address = process.stdout.readline().split()[0]
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
            answer = ask(address, {"image": 3, "changes": {"hue": 0.2}})
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert [model["name"] for model in answer["models"]] == ["care", "simclr"]


def test_export(runs):
    """A backbone that was trained on the GPU, for timm and TorchScript, computes what the run's encoder does."""
    for to in ("timm", "torchscript"):
        invoke("export", runs / "care", "--to", to)
    backbone = timm.create_model("test_resnet", num_classes=0)
    weights = load_file(runs / "care" / "backbone.safetensors")
    assert not backbone.load_state_dict(weights, strict=False).unexpected_keys
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    exported = torch.jit.load(runs / "care" / "encoder.pt")(images)
    torch.testing.assert_close(exported, care.load(runs / "care").features(images), rtol=1e-3, atol=1e-4)
