"""The table of docs/catalogue.md: a row for every method, whose numbers are right and whose command trains."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from care.cli import load_command
from care.cli.train_setup import configuration
from care.data import load
from care.objective.registry import REGISTERED, find
from care.train import Config, distributed
from care.train.state import build_state
from care.train.step import Step
from train.small import small_data

PAGE = (Path(__file__).parents[2] / "docs" / "catalogue.md").read_text()
# name, equation, views, what it keeps, weight, command
ROWS = {
    cells[0]: cells for cells in re.findall(r"^\| `(\w+)` \|(.+)\|(.+)\|(.+)\|(.+)\| `(care train .+)` \|$", PAGE, re.M)
}
KIND = {name: kind for kind, names in REGISTERED.items() for name in names}
TINY = "--model small_resnet --size 16 --batch-size 8 --head-width 16 --device cpu"


def test_a_row_for_all_that_is_registered():
    assert list(ROWS) == list(KIND)


@pytest.mark.parametrize("name", KIND)
def test_views_and_weights_are_those_of_the_method(name, photos):
    _, _, views, _, weight, command = ROWS[name]
    assert float(views) == pytest.approx(configured(command.replace("photos/", photos)).views_a_step, abs=0.01)
    if weight.strip() != "–":
        option, value = re.fullmatch(r" `--([\w-]+)` ([\d.]+) ", weight).groups()
        assert getattr(find(KIND[name], name).Settings(), option.replace("-", "_")) == float(value)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("photos"), n=8, pixels=256)  # views of photos are 224 pixels large


def configured(command):
    """What `care train` makes of the words of a command."""
    _, name, *words = shlex.split(command)
    given = {key: value for key, value in load_command(name).make_context(name, words).params.items() if value}
    chosen = {key: value for key, value in given.items() if key in Config.of(data="any").flat()}
    return configuration(chosen, given.get("keep"), None, None, None)


@pytest.mark.parametrize("name", KIND)
def test_the_command_trains(name, photos):
    config = configured(f"{ROWS[name][-1]} {TINY}".replace("photos/", photos))
    assert getattr(config, KIND[name]).name == name
    samples, processes = load(photos), distributed.start("cpu")
    state = build_state(config, samples, processes)
    before = [p.detach().clone() for p in state.objective.encoder.parameters()]
    step = Step(state, config, processes, 2)
    for _ in range(2):
        step([samples.inputs], 0)
    after = list(state.objective.encoder.parameters())
    assert all(p.isfinite().all() for p in after)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
