"""Where an encoder is exported to, and what is refused before anything is loaded."""

import subprocess
import sys

import pytest
import timm
from typer.testing import CliRunner

from care.cli import app
from care.export.places import ENDINGS, NOT_OF_TIMM
from care.models import Encoder
from care.models.weights import TORCHSCRIPT
from care.train import Run
from train.small import small_config, small_data


@pytest.mark.parametrize("to", ["timm", "huggingface"])
@pytest.mark.parametrize("where", [".", "model.safetensors"])
def test_what_cannot_be_exported_is_told_without_torch(tmp_path, to, where):
    """In a process of its own, which has not loaded it; and no folder is made."""
    config = small_config(small_data(tmp_path / "data"), model="small_resnet")
    Run(tmp_path / "run").folder.mkdir()
    Run(tmp_path / "run").save_encoder(Encoder.build("small_resnet", (32, 32), 8, 16), config, (32, 32))
    suffix = ".safetensors" if to == "timm" else ""
    command = ["care", "export", str(tmp_path / "run" / where), "--to", to, "--out", str(tmp_path / "a" / f"b{suffix}")]
    program = f"import sys; sys.argv = {command}\nimport care.cli\ntry: care.cli.main()\n"
    program += "finally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "False\n"), done.stderr
    assert done.stderr == "care: timm does not build small_resnet at all: use --to onnx or torchscript\n"
    assert not (tmp_path / "a").exists()


def test_models_that_timm_does_not_build_are_those_of_care():
    assert not any(timm.is_model(name) for name in NOT_OF_TIMM)
    assert ENDINGS["torchscript"] == TORCHSCRIPT


def test_folders_on_the_way_are_made(tmp_path):
    config = small_config(small_data(tmp_path / "data"), model="test_resnet", size=32)
    Run(tmp_path).save_encoder(Encoder.build("test_resnet", (32, 32), 8, 16, stem="imagenet").eval(), config, (32, 32))
    for to, out in (("huggingface", tmp_path / "a" / "b" / "mine"), ("timm", tmp_path / "c" / "w.safetensors")):
        result = CliRunner().invoke(app, ["export", str(tmp_path), "--to", to, "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert out.exists()
