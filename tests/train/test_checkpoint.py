"""Checkpoints: what goes in comes out, or is refused by name, and the newest are kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from saved import at, equal, holds, names
from torch import nn

from care.train.checkpoint import load_latest, save
from care.train.state_tree import flatten_state, unflatten_state


def test_every_kind_of_tensor_survives(tmp_path, generator):
    big = torch.randn(6, 8, generator=generator)
    tensors = {
        "plain": big,
        "the same again": big,
        "a view": big[2:4, 1],
        "transposed": big.T,
        "expanded": big[:1].expand(5, 8),
        "channels last": torch.randn(2, 3, 4, 4, generator=generator).to(memory_format=torch.channels_last),
        "scalar": torch.tensor(2.5),
        "bool": torch.tensor([True, False]),
        "int": torch.arange(-3, 3),
        "bytes": torch.arange(256, dtype=torch.uint8),
        "bf16": big.bfloat16(),
        "double": big.double(),
        "empty": torch.zeros(0, 3),
        "parameter": nn.Parameter(big.clone()),
        "not finite": torch.tensor([torch.nan, torch.inf, -0.0]),
        'quotes " and ü/..': torch.ones(1),
    }
    save(tmp_path, 3, tensors, {})
    loaded = load_latest(tmp_path).tensors
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].shape == tensor.shape
        assert (
            loaded[name].reshape(-1).contiguous().view(torch.uint8).tolist()
            == tensor.detach().reshape(-1).contiguous().view(torch.uint8).tolist()
        )
    loaded["plain"].zero_()
    assert equal(loaded["the same again"], big)


def test_the_state_survives(tmp_path):
    state = {
        "epoch": 3,
        "loss": 0.1 + 0.2,
        "nan": float("nan"),
        "text": 'ü "quoted"\n',
        "none": None,
        "sha256": "0" * 64,
    }
    save(tmp_path, 12, {}, state | {"list": [1, True, {"a": 2.0}]})
    checkpoint = load_latest(tmp_path)
    assert checkpoint.path == tmp_path / "step-00000012"
    assert checkpoint.skipped == ()
    assert equal(checkpoint.state, state | {"list": [1, True, {"a": 2.0}]})


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, np.float64(1.0), Path("a"), torch.ones(1)], ids=str)
def test_state_that_json_would_change_is_refused(value, tmp_path):
    with pytest.raises(TypeError, match="state/deep/0"):
        save(tmp_path / "new", 0, {}, {"deep": [value]})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("odd", torch.eye(2).to_sparse()),
        ("odd", torch.ones(2, dtype=torch.complex128)),
        ("__metadata__", torch.ones(2)),
    ],
    ids=["sparse", "complex", "reserved"],
)
def test_tensors_that_the_format_cannot_hold_are_refused_by_name(name, tensor, tmp_path):
    with pytest.raises(TypeError, match=f"{name}.*cannot be saved"):
        save(tmp_path, 0, {name: tensor}, {})
    assert names(tmp_path) == []


def trained(make_optimizer, steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    return train(model, make_optimizer(model.parameters()), range(steps))


def train(model, optimizer, steps):
    for step in steps:
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-3, amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=torch.tensor(1e-2), foreach=False),
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    ],
    ids=["adam", "adamw", "sgd"],
)
def test_training_goes_on_as_if_it_had_not_stopped(make_optimizer, tmp_path):
    """Five steps, a checkpoint, five steps from what the disk holds: bit-identical to ten steps."""
    whole, whole_optimizer = trained(make_optimizer, 10)
    first, first_optimizer = trained(make_optimizer, 5)
    model_tensors, model_rest = flatten_state(first.state_dict(), "model")
    optimizer_tensors, optimizer_rest = flatten_state(first_optimizer.state_dict(), "optimizer")
    save(tmp_path, 5, model_tensors | optimizer_tensors, {"model": model_rest, "optimizer": optimizer_rest})

    checkpoint = load_latest(tmp_path)
    second, second_optimizer = trained(make_optimizer, 0)
    second.load_state_dict(unflatten_state(checkpoint.tensors, checkpoint.state["model"]))
    second_optimizer.load_state_dict(unflatten_state(checkpoint.tensors, checkpoint.state["optimizer"]))
    train(second, second_optimizer, range(5, 10))
    assert equal(dict(second.state_dict()), dict(whole.state_dict()))
    assert equal(second_optimizer.state_dict(), whole_optimizer.state_dict())


def test_the_newest_are_kept(tmp_path):
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None
    for step in range(8, 13):
        assert save(tmp_path / "new" / "folder", step, *at(step), keep=3).name == f"step-{step:08d}"
        assert holds(load_latest(tmp_path / "new" / "folder"), step)
    assert names(tmp_path / "new" / "folder") == ["step-00000010", "step-00000011", "step-00000012"]


def test_steps_are_ordered_as_numbers(tmp_path):
    for step in (99_999_999, 100_000_000):
        save(tmp_path, step, *at(step))
    assert load_latest(tmp_path).step == 100_000_000


@pytest.mark.parametrize(("step", "keep"), [(-1, 2), (0, 0)])
def test_senseless_settings_are_refused(step, keep, tmp_path):
    with pytest.raises(ValueError, match="step ≥ 0 and keep ≥ 1"):
        save(tmp_path, step, {}, {}, keep=keep)


def test_a_step_saved_again_replaces_the_first_and_keeps_the_one_before(tmp_path):
    save(tmp_path, 1, *at(1))
    save(tmp_path, 2, {}, {})
    for attempt in (2, 3):
        assert save(tmp_path, 2, *at(2)).name == f"step-00000002-{attempt}"
        assert names(tmp_path) == ["step-00000001", f"step-00000002-{attempt}"]
        assert holds(load_latest(tmp_path), 2)


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path):
    """10 and 20 whole, 25 and 30 damaged: resumed from 20, saving 27 must not push 20 out, nor stay behind 30."""
    for step in (10, 20, 25, 30):
        save(tmp_path, step, *at(step), keep=9)
    for step in (25, 30):
        (tmp_path / f"step-000000{step}" / "tensors.safetensors").write_bytes(b"")
    assert holds(load_latest(tmp_path), 20)
    save(tmp_path, 27, *at(27), keep=2)
    assert names(tmp_path) == ["step-00000020", "step-00000027"]


def test_left_overs_are_ignored_and_removed(tmp_path):
    for name in (".incomplete-step-00000009", ".incomplete-step-00000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tensors.safetensors").write_bytes(b"half")
    (tmp_path / ".incomplete-config.json").write_bytes(b"half")
    (tmp_path / "notes").mkdir()
    assert load_latest(tmp_path) is None
    save(tmp_path, 2, *at(2))
    assert names(tmp_path) == ["notes", "step-00000002"]
