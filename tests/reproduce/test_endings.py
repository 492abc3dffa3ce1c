"""`care reproduce` when a training goes wrong: one line, an exit code that tells what it was, and nothing lost."""

import pytest
from typer.testing import CliRunner

from care.cli import app
from care.evaluate import EvaluationSettings
from care.reproduce.scales import SMOKE
from coarse_drawing import coarse_drawing
from train.small import mounted


@pytest.fixture(scope="module", autouse=True)
def quick():
    """One epoch, few measures, and coarse pictures."""
    measures = EvaluationSettings(images=20, augmentations=2, probe="none", logistic=False)
    with coarse_drawing(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(SMOKE.settings, "epochs", 1)
        patch.setitem(vars(SMOKE), "measures", measures)
        patch.setattr("care.evaluate.decoding.network.EPOCHS", 3)
        yield


def reproduce(*words):
    """CARE on point clouds, with one seed: seconds."""
    shared = ["reproduce", "proteins", "--scale", "smoke", "--part", "CARE", "--seed", "0", "--device", "cpu"]
    return CliRunner().invoke(app, [*shared, *words])


def test_a_loss_that_is_not_finite_ends_with_3_and_says_how_to_go_on_without(tmp_path, monkeypatch):
    monkeypatch.setitem(SMOKE.settings, "learning_rate", 1e30)
    ended = reproduce("--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"))
    assert ended.exit_code == 3
    assert "not finite" in ended.stderr.splitlines()[-1]
    assert "--part" in ended.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("results/*/trials/*.json"))


@pytest.mark.parametrize("full", ["--out", "--runs"])
def test_a_full_disk_ends_with_1_and_room_lets_the_same_command_go_on(full, tmp_path):
    with mounted(tmp_path / "disk", 4):
        folders = {"--out": tmp_path / "results", "--runs": tmp_path / "runs", full: tmp_path / "disk" / "folder"}
        words = [word for option, folder in folders.items() for word in (option, str(folder))]
        filling = tmp_path / "disk" / "filling"
        filling.write_bytes(bytes(4_160_000))  # of 4 MiB: no room for a table and its pictures
        ended = reproduce(*words)
        assert ended.exit_code == 1, ended.output
        assert "the same command goes on" in ended.stderr.splitlines()[-1]
        filling.unlink()
        assert reproduce(*words).exit_code == 0
        assert (folders["--out"] / "smoke" / "proteins" / "proteins.json").is_file()
