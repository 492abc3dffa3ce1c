"""Checkpoints are written beside the training: what is written is the state when it was handed over."""

import threading

import pytest
import torch

from care.train import checkpoint, distributed
from care.train.job import prepare
from care.train.state import build_state
from care.train.writer import Writer
from train.small import small_config, small_data


def test_training_goes_on_meanwhile_and_changes_nothing_of_what_is_written(tmp_path):
    config = small_config(small_data(tmp_path / "data"))
    job = prepare(config, tmp_path / "run")
    processes = distributed.start("cpu")
    state = build_state(config, job.samples, processes)
    before = {name: tensor.clone() for name, tensor in state.objective.state_dict().items()}
    go_on = threading.Event()
    with Writer() as writer:
        writer.thread.submit(go_on.wait)  # the disk is slow
        state.save(job.run, job.about, processes, writer)
        assert checkpoint.load_latest(job.run.checkpoints) is None
        for parameter in state.objective.parameters():
            parameter.data.add_(1)
        state.step += 1
        go_on.set()
        writer.wait()
    saved = checkpoint.load_latest(job.run.checkpoints)
    assert saved.step == 0
    restored = build_state(config, job.samples, processes)
    restored.restore(saved, processes)
    assert all(torch.equal(tensor, before[name]) for name, tensor in restored.objective.state_dict().items())


def fail():
    raise OSError("the disk is full")


@pytest.mark.parametrize("ask", [lambda writer: writer.wait(), lambda writer: writer.write(print)])
def test_a_failure_is_told_once_at_the_next_chance(ask):
    with Writer() as writer:
        writer.write(fail)
        with pytest.raises(OSError, match="full"):
            ask(writer)
        writer.wait()


def fail_while_writing(done):
    with Writer() as writer:
        writer.write(done.append, 1)
        raise KeyError


def test_leaving_waits_and_does_not_hide_why():
    done = []
    with pytest.raises(KeyError):
        fail_while_writing(done)
    assert done == [1]
