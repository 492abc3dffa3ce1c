"""The method that the docs write: it is short, it trains, and it keeps to the contract."""

import re
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import care
from care.cli import app, main
from care.objective import registry
from care.train import Run

pytestmark = pytest.mark.usefixtures("coarse_pictures")

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
SIZES = "--epochs 2 --limit 64 --batch-size 16 --embedding-dim 8 --head-width 16 --device cpu --evaluate-every 2"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_loaded", {})
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, ["train", "--data", "shapes", *SIZES.split(), *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_has_at_most_forty_lines(folder):
    assert len((folder / "mine.py").read_text().splitlines()) <= 40


def test_it_trains_resumes_and_is_measured_without_its_code(folder, monkeypatch):
    mine = ["--method", "mine.py:Spectral", "--squared-length", 3.0, "--out", "run"]
    assert re.search(r"epoch 2  loss \S+  spectral -?\d", run(*mine, "--equivariance", "care", "--chunks", 4))
    config = Run(Path("run")).config()
    assert config.method.settings.squared_length == 3.0
    assert "already finished" in run("--resume", *mine)
    monkeypatch.setattr(registry, "_loaded", {})
    result = CliRunner().invoke(app, ["train", "--resume", "--out", "run"])
    assert (result.exit_code, "only if --method mine.py:Spectral asks for it" in result.stderr) == (2, True)
    Path("mine.py").unlink()
    assert care.load("run")(torch.rand(2, 3, 32, 32)).shape == (2, 8)


def test_its_loss_is_its_formula(folder, generator):
    registry.load("method", "mine.py:Spectral")
    from objective.small import build, drawn, noise

    objective = build(method="mine.py:Spectral", squared_length=3.0)
    views = drawn(objective, noise())
    with torch.no_grad():
        z = [torch.nn.functional.normalize(z) for _, z in objective.encoder.encode_views([v.inputs for v in views])]
    n = 8
    positive = sum(3 * z[0][i] @ z[1][i] for i in range(n)) / n
    negative = sum((3 * z[0][i] @ z[1][j]) ** 2 for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    torch.testing.assert_close(objective(views)["spectral"].value, -2 * positive + negative)


def test_its_options_are_part_of_the_help(folder):
    words = ["train", "--method", "mine.py:Spectral", "--help"]
    text = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    assert "--squared-length" in text
    assert "μ, the squared length of embeddings." in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "nowhere.py:Spectral"], "there is no file nowhere.py"),
        (["--method", "mine.py:Missing"], "has no class 'Missing'"),
        (["--method=mine.py:Spectral", "--squared-length", "0"], "squared_length must be greater than 0"),
        (["--squared-length", "1"], "No such option"),
    ],
)
def test_mistakes_are_one_line(words, message, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["care", "train", "--data", "shapes", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1
