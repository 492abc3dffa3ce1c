"""What is exported computes the same in another program, or is not kept."""

import pytest
import timm
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import care
from care import export as exporting
from care.cli import app
from care.models import small_stem
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
    file, _ = exporting.export(run, "timm")
    model = timm.create_model("test_resnet", num_classes=0)
    small_stem(model).load_state_dict(load_file(file))
    encoder, images = care.load(run), torch.rand(2, 3, 32, 32)
    normalized = (images - encoder.mean.view(1, 3, 1, 1)) / encoder.std.view(1, 3, 1, 1)
    torch.testing.assert_close(model.eval()(normalized), encoder.features(images))


def test_another_function_is_not_kept(run, monkeypatch):
    monkeypatch.setattr(exporting, "_write_torchscript", lambda features, file, example: lambda x: 2 * features(x))
    (run / "encoder.pt").unlink(missing_ok=True)
    with pytest.raises(RuntimeError, match="nothing was kept"):
        exporting.export(run, "torchscript")
    assert not (run / "encoder.pt").exists()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("args", "message"), [(["--to", "caffe"], "one of timm, onnx"), (["--to", "timm"], "no-run")])
def test_mistakes_are_told_in_a_line(run, tmp_path, args, message):
    folder = run if "caffe" in args else tmp_path / "no-run"
    result = CliRunner().invoke(app, ["export", str(folder), *args])
    assert result.exit_code == 2
    assert message in result.output
