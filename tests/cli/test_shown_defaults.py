"""`care train --help` shows the default of every setting, and a run for which nothing is chosen has that value."""

import re

import pytest
from typer.testing import CliRunner

from care.cli import app
from care.cli.shown_defaults import ALONE, KEEP, declared_head, defaults_of_data
from care.cli.train_setup import configuration
from care.objective.registry import REGISTERED, find
from care.train import default_config
from care.train.recipes import DEFAULTS, MOCO


@pytest.fixture(scope="module")
def shown():
    """The help of each option, in one line."""
    out = CliRunner().invoke(app, ["train", "--help"], env={"NO_COLOR": "1", "COLUMNS": "1000"}).output
    return dict(re.findall(r"^│ --([a-z-]+) .*?>(?: \[.*?\])?  +(.*?) *│$", out, re.MULTILINE))


def test_no_setting_is_without_its_default(shown):
    """But for the data, which have none, and for what is done only if it is asked for."""
    asked = {"data", "config", "recipe", "keep", "logger", "help"}
    assert len(shown) > 90
    assert [name for name, text in shown.items() if "default" not in text.lower() and name not in asked] == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("temperature", "[default: 0.5; mocov2, dcl 0.1; mocov3, mocov2 on imagenet100 0.2]"),
        ("epochs", "[default: 400; imagenet100 200; shapes 20; chains 40]"),
        ("symmetric", "[default: no-symmetric]"),
        ("weight-decay", "[default: 1e-06; stl10 0.0005; imagenet100 0.0001]"),
        ("model", "[default: resnet18; shapes test_resnet; chains deepset]"),
        ("head-width", "[default: 512; imagenet100, simsiam, barlow_twins, vicreg 2048; chains 64; mocov3, byol 4096]"),
        ("limit", "Train on the first N samples only. Default: all."),
        ("size", "Default: the policy's own, but no larger than the pictures. [flowers102 128]"),
        ("queue", "[default: 4096; mocov2 on imagenet100 65536]"),
        ("method", "[default: simclr]"),
        ("equivariance", "[default: none; care for chains without --method]"),
    ],
)  # fmt: skip
def test_values_are_said_with_the_names_of_those_that_have_them(shown, option, words):
    assert shown[option].endswith(words)


@pytest.mark.parametrize("data", DEFAULTS)
def test_values_of_a_data_set_are_those_that_it_is_trained_with(data):
    trained, stated = default_config(data).flat(), {name: dict(pairs) for name, pairs in defaults_of_data().items()}
    shown = {name: owners[data] for name, owners in stated.items() if data in owners and name in trained}
    assert shown == {name: trained[name] for name in shown}
    assert len(shown) == {"imagenet100": 9, "shapes": 2}.get(data, len(shown))  # but the model, and what CARE has


def test_values_with_data_alone_and_with_keep_are_those_that_are_trained_with():
    stated = {name: dict(pairs) for name, pairs in defaults_of_data().items()}
    alone = configuration({"data": "shapes"}, None, None, None, None).flat()
    assert {name: owners[ALONE] for name, owners in stated.items() if ALONE in owners}.items() <= alone.items()
    kept = configuration({"data": "shapes"}, "hue", None, None, None).flat()
    assert {name: owners[KEEP] for name, owners in stated.items() if KEEP in owners}.items() <= kept.items()


@pytest.mark.parametrize("name", REGISTERED["method"])
def test_the_heads_of_methods_are_read_from_their_source(name):
    assert declared_head(name) == find("method", name).head


def test_other_values_are_read_from_the_source():
    assert ("mocov2 on imagenet100", MOCO["imagenet100"]["queue"]) in defaults_of_data()["queue"]
    assert ("", "resnet18") in defaults_of_data()["model"]
