"""The examples run, and their loss falls."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def falls(history):
    return len(history) == 3 and history[-1] < history[0] - 0.05


def test_a_plain_loop(capsys):
    assert falls(example("plain_loop").main(epochs=3))
    assert capsys.readouterr().out.count("loss") == 3


def test_a_dataloader():
    assert falls(example("dataloader").main(epochs=3, workers=0))


@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_lightning_module():
    pytest.importorskip("lightning")
    assert falls(example("lightning_module").main(epochs=3, accelerator="cpu", enable_progress_bar=False))


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.name)
def test_examples_are_short(file):
    assert len(file.read_text().splitlines()) <= 60
