"""What a method or an equivariance refuses when it is built is told before anything is written."""

import pytest
import torch

from care.objective import build_objective, registry
from care.train import prepare
from care.train.checks import check_objective
from objective.small import REGISTERED_ONCE
from train.small import small_config, small_data

MINE = """
import torch

from care.objective import Method, Term


class Mine(Method):
    def __init__(self, settings, encoder, context):
        super().__init__(settings, encoder, context)
        {body}

    def terms(self, a, b):
        return {{"mine": Term((a.z - b.z).square().mean())}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def built(monkeypatch):
    """The devices of the encoders that an objective was built around."""
    devices = []

    def build(settings, encoder, *others):
        devices.append(next(encoder.parameters()).device.type)
        return build_objective(settings, encoder, *others)

    monkeypatch.setattr("care.train.checks.build_objective", build)
    return devices


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a method of one's own, by the last line of its `__init__`."""
    monkeypatch.setattr(registry, "_loaded", {})

    def write(body):
        (tmp_path / "mine.py").write_text(MINE.format(body=body))
        return registry.load("method", f"{tmp_path / 'mine.py'}:Mine") and f"{tmp_path / 'mine.py'}:Mine"

    return write


@pytest.mark.parametrize("name", REGISTERED_ONCE)
def test_all_of_it_is_built_without_weights_and_without_random_numbers(name, data, built):
    config = small_config(data, **REGISTERED_ONCE[name])
    before = torch.get_rng_state()
    check_objective(config, (12, 12))
    assert built == ["meta"]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_method_of_ones_own_may_read_the_weights(data, own, built, tmp_path):
    body = "self.start = encoder(torch.rand(4, 3, 12, 12)).sum().item()"
    before = torch.get_rng_state()
    prepare(small_config(data, method=own(body)), tmp_path / "run").lock.release()
    assert built == ["meta", "cpu"]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_what_it_refuses_leaves_no_folder(error, data, own, tmp_path):
    body = f'raise {error.__name__}("mine needs more: add it")'
    with pytest.raises(error, match=r"^mine needs more: add it$"):
        prepare(small_config(data, method=own(body)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_is_built_for_the_micro_batch_and_all_processes(data, own):
    body = 'raise ValueError(f"{context.batch} of {context.processes}")'
    with pytest.raises(ValueError, match=r"^8 of 2$"):
        check_objective(small_config(data, method=own(body), accumulate=2), (12, 12), processes=2)
