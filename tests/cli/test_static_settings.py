"""What is read from the source of modules is what they are when they are imported."""

import ast
import dataclasses

import pytest

from care import augment, export
from care.cli import static_settings, train_options
from care.cli.static_settings import NotPlain, Setting, constant, fields_of, keys, settings_of
from care.cli.train_options import imported_fields, run_settings, settings_named
from care.data import catalogue
from care.objective import registry
from care.train import Config, Saving
from care.train.loggers import LOGGERS
from care.train.recipes import EQUIVARIANT_DIM, KEPT
from care.train.step_means import LOG_EVERY

METHODS = [(kind, name) for kind in registry.REGISTERED for name in registry.REGISTERED[kind]]


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_settings_of_methods_are_those_of_their_classes(kind, name):
    found = registry.find(kind, name).Settings
    assert settings_of(registry.REGISTERED[kind][name]) == tuple(imported_fields(found))
    assert [setting.name for setting in settings_named(kind, name)] == [f.name for f in dataclasses.fields(found)]


def test_settings_of_every_run_are_those_of_the_class():
    choices = {"method", "equivariance"}
    assert run_settings() == tuple(field for field in imported_fields(Config) if field.name not in choices)
    assert len(run_settings()) == len(dataclasses.fields(Config)) - len(choices)


def test_names_and_constants_are_those_of_their_modules():
    assert keys("care.augment.presets", "PRESETS") == tuple(augment.PRESETS)
    assert keys("care.augment.changes", "CHANGES") == tuple(augment.CHANGES)
    assert keys("care.data.catalogue", "DATA_SETS") == tuple(catalogue.DATA_SETS)
    assert keys("care.train.recipes", "KEPT") == tuple(KEPT)
    assert constant("care.train.recipes", "EQUIVARIANT_DIM") == EQUIVARIANT_DIM
    assert constant("care.train.job", "Saving.minutes") == Saving().minutes
    assert constant("care.train.job", "Saving.every") == Saving().every
    assert keys("care.train.loggers", "LOGGERS") == tuple(LOGGERS)
    assert constant("care.train.step_means", "LOG_EVERY") == LOG_EVERY
    assert constant("care.objective.registry", "REGISTERED") == registry.REGISTERED
    assert constant("care.export.places", "FILES") == export.FILES


SOURCE = """
from typing import Literal
from care.made_up import Elsewhere as Theirs

SIZES = {name: 1 for name in "ab"}

class Fast:
    speed: int = 3

class Mine(Theirs):
    size: Literal[16, "32"] = setting(16, "The " "size.", at_least=1)
    depth: float | None = setting(help="How deep.", default=None)
    also: float = 1.0

class Computed:
    size: Size = setting(16, "The size.")

class Worded:
    size: int = setting(16, f"The {size}.")

class Counted:
    size: int = setting(1 << 4, "The size.")
"""
ELSEWHERE = "class Elsewhere:\n    depth: int = setting(1, 'Theirs.')\n    name: str = setting('')\n"


@pytest.fixture
def made_up(monkeypatch):
    sources = {"care.mine": SOURCE, "care.made_up": ELSEWHERE}
    monkeypatch.setattr(static_settings, "_module", lambda name: ast.parse(sources[name]))


@pytest.mark.usefixtures("made_up")
def test_fields_come_in_the_order_of_a_dataclass():
    depth, name, size = fields_of("care.mine:Mine")
    assert depth == Setting("depth", float | None, "How deep.", None)
    assert name == Setting("name", str, "", "")
    assert (size.name, size.help, size.kind.__args__, size.default) == ("size", "The size.", (16, "32"), 16)
    assert constant("care.mine", "Fast.speed") == 3


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    "read",
    [
        lambda: fields_of("care.mine:Computed"),
        lambda: fields_of("care.mine:Worded"),
        lambda: fields_of("care.mine:Counted"),
        lambda: fields_of("care.mine:Nothing"),
        lambda: keys("care.mine", "SIZES"),
        lambda: constant("care.mine", "SIZES"),
        lambda: constant("care.mine", "NOTHING"),
    ],
)
def test_what_would_have_to_be_run_is_not_plain(read):
    with pytest.raises(NotPlain):
        read()


def test_what_is_not_plain_is_imported(monkeypatch):
    wanted = run_settings(), [settings_named(kind, name) for kind, name in METHODS]

    def never(where):
        raise NotPlain(where)

    monkeypatch.setattr(train_options, "fields_of", never)
    monkeypatch.setattr(train_options, "settings_of", never)
    assert (run_settings(), [settings_named(kind, name) for kind, name in METHODS]) == wanted
