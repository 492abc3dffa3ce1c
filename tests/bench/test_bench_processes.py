"""`care bench scaling` and `care bench start`: processes that measure, and the bytes between them."""

import dataclasses
import json
import re
import subprocess
import sys
import time
from itertools import chain, repeat

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from care.bench import default_settings, process, scaling, scaling_processes
from care.bench.clock import BLOCKS
from care.bench.messages import silent
from care.bench.settings import CARE_SETTINGS
from care.bench.traffic import traffic, traffic_of
from care.bench.training import build_step
from care.objective import View, total
from care.train import distributed

CPU = torch.device("cpu")
TINY = default_settings("cpu", batch_size=8, size=16, seconds=0.01, images=20)


def test_bytes_by_hand():
    """4 processes send 3/4 of what is gathered and twice 3/4 of what is summed."""
    sent = traffic(4, batch=8, dimension=16, parameters=1000, channels=[3, 5], groups=2)
    assert sent.embedding_bytes == 2 * 3 / 4 * (2 * 8 * 16 * 4)
    assert sent.gradient_bytes == 2 * 3 / 4 * 4000
    assert sent.batchnorm_bytes == 2 * 3 / 4 * (8 + 4) * (2 * 2 * 3 + 2 * 2 * 5)
    assert set(vars(traffic(1, 8, 16, 1000, [3], 2)).values()) == {0}


def test_bytes_are_those_of_the_messages(monkeypatch):
    """Two processes, of which one is imagined: every message of a step is counted as it is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        sent = []
        reduce, gather, scatter = dist.all_reduce, dist.all_gather_into_tensor, dist.reduce_scatter_tensor
        monkeypatch.setattr(dist, "all_reduce", lambda x, *a, **k: (sent.append(2 * x.nbytes // 2), reduce(x, *a, **k)))
        monkeypatch.setattr(
            dist, "all_gather_into_tensor", lambda whole, x: (sent.append(whole.nbytes // 2), gather(whole, x))
        )
        monkeypatch.setattr(
            dist, "reduce_scatter_tensor", lambda x, whole: (sent.append(whole.nbytes // 2), scatter(x, whole))
        )
        objective = build_step(TINY, distributed.Processes(0, 2, CPU), **CARE_SETTINGS).state.objective
        sent.clear()
        total(objective([View(view) for view in torch.rand(4, 8, 3, 16, 16)])).backward()
        formula = traffic_of(objective, processes=2, batch=16, dimension=128)
    finally:
        dist.destroy_process_group()
    assert sum(sent) == formula.embedding_bytes + formula.batchnorm_bytes
    assert formula.gradient_bytes == 4 * sum(p.numel() for p in objective.parameters())


def test_two_processes_measure_together():
    said, settings = [], dataclasses.replace(TINY, model="small_resnet")  # for which nothing of timm is imported
    row = scaling._together(settings, number=2, threads=1, say=said.append)
    assert said[:2] == ["starting Python …", "building …"]
    assert said[2].startswith("first step after ")
    assert said[3].endswith("ms a step, measuring its communication")
    assert len(said) == 4
    assert row["samples_per_second"] == pytest.approx(2 * 8e3 / row["ms_per_step"])
    assert min(row["gather_ms"], row["average_ms"], row["batchnorm_bytes"]) > 0
    assert row["predicted_ms"] >= row["alone_ms"] > 0
    assert row["lowest_error"] <= row["prediction_error"] <= row["highest_error"]


def test_a_step_alone_sends_nothing_to_the_others():
    """Its messages go to a group of its own, whatever the group is that all others are in."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        world, settings = dist.group.WORLD, dataclasses.replace(TINY, model="small_resnet")
        alone = scaling_processes._Alone(settings, CPU)
        with alone.here():
            assert dist.group.WORLD is not world
        assert dist.group.WORLD is world
        sent = []
        alone.step = lambda *_: sent.append(dist.group.WORLD)
        alone()
        assert sent == [alone.group]
        assert dist.group.WORLD is world
    finally:
        dist.destroy_process_group()


def test_steps_take_turns(monkeypatch):
    order = []
    times = iter([0.1, 0.4, *range(1, 100)])
    monkeypatch.setattr(
        scaling_processes, "seconds_of", lambda call, n, _: order.append((call(), n)) or float(next(times))
    )
    blocks = scaling_processes._taking_turns([lambda: "alone", lambda: "together"], CPU, seconds=2.0)
    assert order == [("alone", 1), ("together", 1), *(BLOCKS * [("alone", 4), ("together", 1)])]
    assert blocks == [(first / 4, float(first + 1)) for first in range(1, 2 * BLOCKS, 2)]


@pytest.mark.parametrize(("cores", "added"), [(1, 1.0), (2, 3.0), (4, 3.0)])
def test_a_message_of_processes_that_share_a_core_takes_what_it_is_busy(cores, added, monkeypatch):
    """Two of them, on so many cores: 3 s of the clock, whatever a few take; or 0.5 s that a core is busy, twice."""
    monkeypatch.setattr(scaling_processes, "all_cores", lambda: cores)
    times = chain([100.0], repeat(3.0))
    monkeypatch.setattr(scaling_processes, "seconds_of", lambda *_: next(times))
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lambda _: None)
    clock = iter([1.0, 1.0 + 0.5 * scaling_processes.MESSAGES])
    monkeypatch.setattr(scaling_processes.time, "process_time", clock.__next__)
    assert scaling_processes._message_seconds(8, TINY, CPU) == pytest.approx(added)


def test_one_process_sends_nothing(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    process.main("scaling", scaling._encoded(TINY), "unused")
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert row["gather_ms"] is row["average_ms"] is None
    assert row["gradient_bytes"] == 0


def test_the_start_has_its_parts(monkeypatch, capsys):
    def run(arguments, _, say):
        process.main(*arguments)
        *said, found = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"imported after [\d.]+ s, building …", *said)
        return [json.loads(found)]

    monkeypatch.setattr(scaling, "_run", run)
    (row,) = scaling.measure_start(TINY, silent).rows
    parts = row["import_seconds"] + row["build_seconds"] + row["step_seconds"]
    assert row["seconds"] == pytest.approx(parts)


def test_a_process_that_fails_ends_the_others(monkeypatch):
    """One fails at once, one would sleep for a minute."""
    command = "import os, sys, time; time.sleep(60) if os.environ['WHO'] == '0' else sys.exit('out of luck')"
    real = subprocess.Popen
    monkeypatch.setattr(scaling.subprocess, "Popen", lambda _, **k: real([sys.executable, "-c", command], **k))
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="out of luck"):
        scaling._run([], [{"WHO": "0"}, {"WHO": "1"}], silent)
    assert time.monotonic() - started < 30
