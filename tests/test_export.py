"""What is exported computes the same in another program, or is not kept."""

import pytest
import timm
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import care
from care import export as exporting
from care.cli import app
from care.pretrained import load_pretrained
from care.train import prepare, train
from train.small import small_config, small_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    train(prepare(small_config(small_data(folder / "data"), epochs=1), folder / "run"))
    return folder / "run"


@pytest.mark.parametrize("to", ["timm", "torchscript", "onnx"])
def test_the_exported_encoder_agrees(run, to):
    result = CliRunner().invoke(app, ["export", str(run), "--to", to])
    assert result.exit_code == 0, result.output
    assert "relative difference" in result.output
    assert (run / exporting.FILES[to]).stat().st_size > 10_000


def test_timm_loads_the_backbone(run):
    file, _ = exporting.export(str(run), "timm")
    model = timm.create_model("test_resnet", num_classes=0)
    model.load_state_dict(load_file(file))
    encoder, images = care.load(run), torch.rand(2, 3, 32, 32)
    normalized = (images - encoder.mean.view(1, 3, 1, 1)) / encoder.std.view(1, 3, 1, 1)
    torch.testing.assert_close(model.eval()(normalized), encoder.features(images))


def test_what_was_exported_is_measured_as_the_run_is(run):
    """By whoever may read the run: with its normalization, and with views of its size."""
    file, _ = exporting.export(run, "timm")
    subject, images = load_pretrained(f"timm/test_resnet@{file}"), torch.rand(4, 3, 12, 12)
    torch.testing.assert_close(subject.embed(images)["features"], care.load(run).features(images))
    assert subject.size == 32
    assert file.stat().st_mode & 0o777 == (run / "model.safetensors").stat().st_mode & 0o777
    arguments = [f"timm/test_resnet@{file}", "--images", "20", "--augmentations", "1", "--out", str(run / "measured")]
    assert CliRunner().invoke(app, ["measure", *arguments]).exit_code == 0


def test_a_network_that_timm_does_not_have_is_not_exported_to_it(tmp_path):
    data = small_data(tmp_path / "data")
    train(prepare(small_config(data, epochs=1, model="small_resnet"), tmp_path / "run"))
    with pytest.raises(ValueError, match="timm has no small_resnet: use --to onnx"):
        exporting.export(tmp_path / "run", "timm")


def test_another_function_is_not_kept(run, monkeypatch):
    monkeypatch.setattr(exporting, "_write_torchscript", lambda features, file, example: lambda x: 2 * features(x))
    (run / "encoder.pt").unlink(missing_ok=True)
    with pytest.raises(RuntimeError, match="no file is written"):
        exporting.export(run, "torchscript")
    assert not (run / "encoder.pt").exists()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("args", "message"), [(["--to", "caffe"], "one of timm, onnx"), (["--to", "timm"], "no-run")])
def test_mistakes_are_told_in_a_line(run, tmp_path, args, message):
    folder = run if "caffe" in args else tmp_path / "no-run"
    result = CliRunner().invoke(app, ["export", str(folder), *args])
    assert result.exit_code == 2
    assert message in result.output
