"""What is measured of an encoder on a GPU, and what it is exported to: evaluate, compare, measure, export."""

import shutil
import warnings

import pytest
import timm
import torch
from safetensors.torch import load_file

import care
from gpu.commands import CARE, QUICK, SMALL, check_record, invoke, run

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def trained(gpu, photos, tmp_path_factory):
    """The folder of a run of CARE."""
    folder = tmp_path_factory.mktemp("studied") / "care"
    run(gpu, "train", "--data", photos, *SMALL, *CARE, "--epochs", 1, "--out", folder)
    return folder


def test_evaluate_and_compare(trained, gpu, tmp_path):
    output = run(gpu, "evaluate", trained, *QUICK, "--probe-epochs", 2, "--seeds", 2)
    assert "linear probe (paper), clean, 2 seeds" in output
    assert check_record(trained / "evaluation" / "evaluation.json")["about"]["test_images"] == 40
    assert (trained / "evaluation" / "wahba-embedding.png").stat().st_size > 3000
    shutil.copytree(trained / "evaluation", tmp_path / "same")
    assert "compared with" in invoke("compare", trained, tmp_path / "same", "--out", tmp_path / "both")
    check_record(tmp_path / "both" / "comparison.json")


def test_measure_a_model_of_others(gpu, photos, tmp_path):
    words = ("timm/resnet18@random", "--data", photos, "--split", "val", "--size", 64, "--no-families")
    output = run(gpu, "measure", *words, *QUICK, "--out", tmp_path / "measured")
    assert "held-out" in output
    assert check_record(tmp_path / "measured" / "measurement.json")["features"]["images"] == 40


def test_a_gpu_measures_what_a_cpu_does(trained, gpu, tmp_path):
    """With the same augmentations, drawn on the host, and the rounding of another machine."""
    found = []
    for device in (gpu, "cpu"):
        run(device, "measure", trained, *QUICK, "--no-families", "--out", tmp_path / device)
        found.append(check_record(tmp_path / device / "measurement.json")["embedding"])
    for name in ("gamma", "heldout_ratio"):
        assert found[0]["families"]["all"][name] == pytest.approx(found[1]["families"]["all"][name], rel=0.02)


def test_export(trained):
    """A backbone that was trained on the GPU, for timm and TorchScript, computes what the run's encoder does."""
    for to in ("timm", "torchscript"):
        invoke("export", trained, "--to", to)
    backbone = timm.create_model("test_resnet", num_classes=0)
    weights = load_file(trained / "backbone.safetensors")
    assert not backbone.load_state_dict(weights, strict=False).unexpected_keys
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(action="ignore"):  # torch gives up TorchScript
        exported = torch.jit.load(trained / "encoder.pt")(images)
    torch.testing.assert_close(exported, care.load(trained).features(images), rtol=1e-3, atol=1e-4)
