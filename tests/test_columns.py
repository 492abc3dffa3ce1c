"""Everything that a command prints fits 80 columns: its printing, on stored results."""

import io
import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

import care.reproduce
from care.bench.results import SHOWN, Table
from care.cli import app
from care.cli.rate import say
from care.evaluate import Evaluation
from care.evaluate import summary as evaluation_summary
from care.evaluate.comparison.compare import compare_evaluations
from care.evaluate.comparison.quantities import quantities
from care.evaluate.transfer.result import Transfer, transfer_table
from care.reproduce import STUDIES
from care.tables import paragraphs, text_table
from care.train import Terminal, recipes
from care.train.summary import Facts, in_lines, summary

RESULTS = Path(__file__).parents[1] / "results"
TRIALS = sorted((RESULTS / "small" / "trials").glob("*.json"))
STORED = TRIALS[:: len(TRIALS) // 8]


@pytest.fixture(autouse=True)
def terminal_of_80(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def assert_fits(text):
    assert text.strip()
    assert [line for line in text.splitlines() if len(line) > 80] == []


def printed(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", [path.parent.name for path in RESULTS.glob("*/*/table.md")])
def test_tables_of_reproductions(name):
    for file in RESULTS.glob(f"*/{name}/{name}.json"):
        record = json.loads(file.read_bytes())
        assert_fits(text_table(name, record["table"]["header"], record["table"]["rows"]))
        assert_fits(paragraphs([*record["remarks"], name]))


def test_a_reproduction(monkeypatch, tmp_path):
    monkeypatch.setattr(care.reproduce, "write_reproduction", lambda *_: None)
    places = ("--out", RESULTS, "--runs", tmp_path, "--device", "cpu")
    shown = printed("reproduce", "linear-probe", "--scale", "small", "--done", *places).replace(str(RESULTS), "results")
    assert_fits(shown)


def test_lists():
    assert_fits(printed("reproduce"))
    assert_fits(printed("recipes"))
    assert_fits(printed("data", "list", "--root", "stores"))


def test_trials():
    for name in STUDIES:
        assert_fits(printed("reproduce", name, "--scale", "small", "--trials", "--out", "results"))


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_trial_measured_and_logged(file):
    record = json.loads(file.read_bytes())
    evaluation = Evaluation(record["evaluation"], {})
    assert_fits(evaluation_summary(evaluation))
    for output in evaluation.outputs:
        assert_fits(evaluation.measurement(output).table())
    text = io.StringIO()
    for line in record["log"]:
        Terminal(Console(file=text, force_terminal=False, width=80)).epoch(line)
    assert_fits(text.getvalue())
    if "transfer" in record:
        assert_fits(transfer_table({"SimCLR": Transfer(record["transfer"], {})}))


def test_a_comparison():
    found = {}
    for name, file in (("simclr-100-epochs", TRIALS[0]), ("care-100-epochs", TRIALS[1]), ("other", TRIALS[2])):
        evaluation = Evaluation(json.loads(file.read_bytes())["evaluation"], {})
        found[name] = quantities(evaluation)
        for i, quantity in enumerate(found[name]):
            units = torch.randn(50, generator=torch.Generator().manual_seed(i))
            object.__setattr__(quantity, "units", units)
    comparison = compare_evaluations({}, found)
    assert_fits(comparison.table())
    assert "compared with simclr-100-epochs" in comparison.table(400).splitlines()[0]


def test_what_care_train_says():
    facts = Facts(
        50_000, (32, 32), 10, 11_500_000, "stem: 3 × 3, " + "a word " * 20, 97, 1, "cuda", "bfloat16", True, "runs/a"
    )
    for config in recipes().values():
        assert_fits(in_lines(summary(config, facts)))


def test_a_benchmark():
    row = {key: 12_345 if "," in form or form == "{}" else 0.25 for key, (_, form) in SHOWN.items()}
    assert_fits(Table("train", "Training, " + "a word " * 20, (row, row), ("a note " * 40,)).text())


def test_pictures(tmp_path):
    folder = tmp_path / "photos" / "cat"
    folder.mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", (40, 40), (i, 80, 90)).save(folder / f"{i}.png")
    (folder / "bro ken.png").write_bytes(b"no picture")
    for words in (("augment", tmp_path / "photos"), ("augment", tmp_path / "photos", "--policy", "imagenet100")):
        shown = printed(*words, "--out", tmp_path / "a.png")
        assert_fits(shown.replace(str(tmp_path), "here"))
    assert_fits(
        printed(
            "data", "prepare", "pets", "--from", tmp_path / "photos", "--root", tmp_path / "s", "--pixels", 32
        ).replace(str(tmp_path), "here")
    )


def test_a_line_is_wrapped_at_words_and_paths_stay_whole():
    text, path = io.StringIO(), "/a/long/path/" + "x" * 60
    say(Console(file=text, width=80), f"  {path}: cannot be read, since it is none of all the kinds of pictures")
    assert path in text.getvalue().split(":")[0]
    assert_fits(text.getvalue())
