"""Transfer and robustness on a GPU, from the command to the files; and the numbers are those of a CPU."""

import pytest
import torch

from care.evaluate import Transfer
from care.evaluate.transfer.few_shot import few_shot
from gpu.commands import check_record, invoke, run

pytestmark = pytest.mark.gpu

MODELS = ("timm/test_resnet@random", "timm/resnet18@random", "--size", 32)


def test_transfer_and_compare(gpu, photos, tmp_path):
    """Shapes have classes enough for few-shot tasks, photos have not."""
    limits = ("--images", 400, "--tasks", 150)
    output = run(gpu, "transfer", *MODELS, "--to", "shapes", "--to", photos, *limits, "--out", tmp_path / "out")
    assert "shapes: 10 classes, top-1" in output
    assert "without few-shot tasks of photos" in output
    names = ("test_resnet-random", "resnet18-random")
    for name in names:
        record = check_record(tmp_path / "out" / name / "transfer.json")
        assert set(record["data"]) == {"shapes", "photos"}
        assert set(record["data"]["shapes"]["few_labels"]) == {"1 %", "10 %"}
        assert record["data"]["shapes"]["few_shot"]["5"]["logistic"]["mean"] > 0.2
    assert (tmp_path / "out" / "transfer.png").stat().st_size > 3000
    folders = (tmp_path / "out" / name for name in names)
    assert "TRANSFER TO SHAPES" in invoke("compare", *folders, "--out", tmp_path / "both")


def test_a_gpu_finds_what_a_cpu_does(gpu, tmp_path):
    """The same labels and tasks, drawn on the host, with the rounding of another machine."""
    found = []
    for device in (gpu, "cpu"):
        words = ("--to", "shapes", "--images", 300, "--tasks", 100, "--out", tmp_path / device)
        run(device, "transfer", "timm/test_resnet@random", "--size", 32, *words)
        found.append(Transfer.load(tmp_path / device / "test_resnet-random").scores("shapes"))
    for row, (accuracy, _) in found[0].items():
        assert accuracy == pytest.approx(found[1][row][0], abs=0.03), row


def test_few_shot_tasks_stay_on_the_gpu(gpu):
    features = torch.randn(210, 16, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(210) % 10
    there = few_shot(features.to(gpu), labels.to(gpu), 5, tasks=120)
    here = few_shot(features, labels, 5, tasks=120)
    assert there["logistic"].device.type == gpu
    for name, accuracy in there.items():
        torch.testing.assert_close(accuracy.cpu(), here[name], rtol=0, atol=0.05)


def test_robustness(gpu, photos, tmp_path):
    output = run(gpu, "robustness", *MODELS, "--data", photos, "--out", tmp_path / "out")
    assert "corrupted, mean" in output
    record = check_record(tmp_path / "out" / "robustness.json")
    assert len(record["models"]["resnet18@random"]["corruptions"]["noise"]["top1"]) == 5
    assert (tmp_path / "out" / "robustness.png").stat().st_size > 3000
