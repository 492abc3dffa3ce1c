"""The examples, and the loop of the gallery, run, and their loss falls."""

import importlib.util
from pathlib import Path

import pytest

from care.data import generate_shapes

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def example(name, folder=EXAMPLES):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def falls(history):
    return len(history) == 3 and history[-1] < history[0] - 0.05


def test_a_plain_loop():
    history = example("own_loop", ROOT / "docs" / "gallery").train(weight=3.0, epochs=3, pictures=128)
    assert falls([contrast + 3.0 * angles for contrast, angles in history])


def test_a_dataloader(monkeypatch):
    """On half of the pictures, in as many steps."""
    module = example("dataloader")
    monkeypatch.setattr(module, "generate_shapes", lambda n, seed: generate_shapes(n // 2, seed=seed))
    monkeypatch.setattr(module, "BATCH", module.BATCH // 2)
    assert falls(module.main(epochs=3, workers=0))


@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_lightning_module():
    pytest.importorskip("lightning")
    assert falls(example("lightning_module").main(epochs=3, accelerator="cpu", enable_progress_bar=False))


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.name)
def test_examples_are_short(file):
    assert len(file.read_text().splitlines()) <= 60
