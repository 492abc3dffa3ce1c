"""Small demos for all tests of them: `care demo` as a user runs it, on little data."""

import dataclasses
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from care import demo
from care.cli import app
from care.data import registry
from care.evaluate import EvaluationSettings
from coarse_drawing import coarse_drawing

SMALL = {
    "shapes": {"limit": 64, "epochs": 2, "batch_size": 64, "chunks": 8, "evaluate_every": 2},
    "chains": {"limit": 128, "epochs": 10, "batch_size": 32, "chunks": 4, "evaluate_every": 10},
}
TERMINAL = {"NO_COLOR": "1", "COLUMNS": "80"}


def made_small(lesson):
    return dataclasses.replace(lesson, settings={**lesson.settings, **SMALL[lesson.data]})


@contextmanager
def everything_small():
    """The lessons of the demo by data set, made small. Data sets are small meanwhile, and so is what is measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "GENERATED_SPLITS", {"train": (256, 1), "test": (120, 2)})
        patch.setattr(demo, "MEASURES", EvaluationSettings(images=100, augmentations=2, probe="none"))
        patch.setattr(demo, "HUE", made_small(demo.HUE))
        lessons = {lesson.data: made_small(lesson) for lesson in demo.LESSONS}
        patch.setattr(demo, "LESSONS", list(lessons.values()))
        yield lessons


@pytest.fixture
def small():
    with everything_small() as lessons:
        yield lessons


def _run(out, *options):
    with everything_small(), coarse_drawing():
        done = CliRunner().invoke(app, ["demo", "--out", str(out), *options], env=TERMINAL)
    assert done.exit_code == 0, done.output
    return out, done.stdout


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """(the folder of a finished full demo, what it printed)."""
    return _run(tmp_path_factory.mktemp("demo") / "here" / "and" / "now", "--full")


@pytest.fixture(scope="session")
def short(tmp_path_factory):
    """(the folder of a finished short demo, what it printed)."""
    return _run(tmp_path_factory.mktemp("short"))
