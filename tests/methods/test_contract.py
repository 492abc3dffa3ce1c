"""What every registered method keeps to, without a test of its own: the list comes from the registry.

Several processes against one are in `tests/train/several_processes.py`, captured steps in
`tests/train/test_graph.py`, for the same list.
"""

import dataclasses
import signal

import pytest
import torch

from care.methods.simclr import SimCLR
from care.objective import Method, build_encoder, registry, total, view_plan
from care.objective.choice import Choice
from care.train import Config, Interrupted, prepare, train
from care.train.trained import load_trained
from objective.small import ALL, COMBINATIONS, METHODS, REGISTERED_ONCE, SMALLER, build, drawn, noise, small
from train.small import same_state, small_config, small_data
from train.watched import StopAfter


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", COMBINATIONS)
def test_gradients_are_finite_and_reach_the_encoder(name):
    objective = build(**SMALLER | COMBINATIONS[name])
    total(objective(drawn(objective, noise()))).backward()
    gradients = {name: p.grad for name, p in objective.named_parameters() if p.requires_grad}
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
    assert any(gradient.abs().max() > 0 for name, gradient in gradients.items() if name.startswith("encoder"))
    objective.after_step(torch.zeros((), dtype=torch.float64))
    assert all(value.isfinite().all() for value in objective.state_dict().values())


@pytest.mark.parametrize("name", ALL)
def test_a_configuration_comes_back_from_toml(name):
    config = small(**ALL[name])
    assert Config.from_toml(config.to_toml()) == config
    assert Config.of(**config.flat()) == config


class Recorder:
    """Settings that note which of them were read."""

    def __init__(self, settings):
        self.__dict__.update(_settings=settings, _read=set())

    def __getattr__(self, name):
        self._read.add(name)
        return getattr(self._settings, name)


@pytest.mark.parametrize("name", REGISTERED_ONCE)
def test_every_option_is_used(name, monkeypatch):
    """From the checks to the end of a step, each setting of the method and of the equivariance is read."""
    config = small(**SMALLER | REGISTERED_ONCE[name])
    recorders = {kind: Recorder(getattr(config, kind).settings) for kind in ("method", "equivariance")}
    for kind, recorder in recorders.items():
        object.__setattr__(config, kind, Choice(getattr(config, kind).name, recorder))
    monkeypatch.setattr(dataclasses, "fields", _fields_of_recorded(dataclasses.fields))
    from care.objective import build_objective

    torch.manual_seed(0)
    objective = build_objective(config, build_encoder(config, (32, 32)).double(), config.batch_size).double()
    total(objective(drawn(objective, noise())))
    objective.after_step(torch.zeros((), dtype=torch.float64))
    monkeypatch.undo()
    for recorder in recorders.values():
        unused = {field.name for field in dataclasses.fields(recorder._settings)} - recorder._read
        # Those of networks that are not there.
        if getattr(recorder._settings, "augself_weight", 1) == 0:
            unused -= {"prediction_width"}
        if getattr(recorder._settings, "equimod_weight", 1) == 0:
            unused -= {"equimod_from", "augmentation_width"}
        assert not unused, f"{name} never reads {unused}"


def _fields_of_recorded(fields):
    return lambda thing: fields(thing._settings if isinstance(thing, Recorder) else thing)


def resumed(name):
    """A method that keeps nothing of its own from step to step is stopped and resumed as SimCLR is."""
    found = registry.find("method", name) if name in METHODS else None
    alike = found not in (None, SimCLR) and (found.__init__, found.after_step) == (Method.__init__, Method.after_step)
    return pytest.param(name, marks=pytest.mark.faults if alike else ())


@pytest.mark.parametrize("name", [resumed(name) for name in REGISTERED_ONCE])
def test_stopped_and_resumed_it_ends_in_the_same_bits_and_the_encoder_loads_alone(name, data, tmp_path, monkeypatch):
    monkeypatch.setattr("care.train.monitor.AUGMENTATIONS", 2)
    config = small_config(data, **REGISTERED_ONCE[name], epochs=1, limit=32)
    train(prepare(config, tmp_path / "whole"))
    with pytest.raises(Interrupted):
        train(prepare(config, tmp_path / "stopped"), StopAfter(1, signal.SIGTERM))
    train(prepare(config, tmp_path / "stopped", resume=True))
    assert same_state(tmp_path / "whole", tmp_path / "stopped")
    trained = load_trained(tmp_path / "whole")
    monkeypatch.setattr(registry, "REGISTERED", {"method": {}, "equivariance": {}})
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr("care.train.config.REGISTERED", {"method": {}, "equivariance": {}})
    alone = load_trained(tmp_path / "whole")
    images = torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(alone.encoder(images), trained.encoder(images))
    assert alone.config.equivariant_dim == trained.config.equivariant_dim


def test_every_method_says_how_many_views_it_costs():
    for name in METHODS:
        assert len(view_plan(small(method=name), 8).views) >= 2
