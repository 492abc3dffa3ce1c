"""How much of a step is waiting, for a step and a stream that take as long as we want."""

import dataclasses
import json

import pytest
import torch

from care.bench import clock, data_waiting, default_settings, loader, streaming
from care.bench.settings import Settings

TINY = default_settings("cpu", batch_size=8, size=16, seconds=0.01, images=20)


class SlowStep:
    """A step that takes 10 ms, of a clock that goes on when it is told to."""

    graph = None

    def __init__(self, now, slower=0.0):
        self.now, self.seconds, self.slower = now, 0.01, slower

    def __call__(self, inputs, epoch):
        assert len(inputs) == 1
        self.now[0] += self.seconds
        self.seconds += self.slower


@pytest.fixture
def now(monkeypatch):
    """What the clock shows; the step is a slow one."""
    shown = [0.0]
    monkeypatch.setattr(data_waiting, "build_step", lambda *_, **__: SlowStep(shown))
    monkeypatch.setattr(clock.time, "perf_counter", lambda: shown[0])
    return shown


def test_the_share_of_waiting_is_that_of_a_slow_stream(now):
    """A step of 10 ms, and batches that come 30 ms after they are asked for: three quarters are waiting."""
    ended, said = [], []

    def slow():
        try:
            while True:
                now[0] += 0.03
                yield torch.zeros(1)
        finally:
            ended.append(True)

    fed = data_waiting.FedStep(TINY)
    row = fed.measure(slow(), said.append)
    assert row == pytest.approx({"waiting_share": 0.75, "ms_per_step": 40.0, "alone_ms": 10.0})
    assert ended == [True]
    assert said[-1] == "40.0 ms a step fed, of which it waits for 75.0%"
    ready = (torch.zeros(1) for _ in range(100))
    assert fed.measure(ready, said.append)["waiting_share"] == pytest.approx(0, abs=1e-9)


def test_a_gpu_that_slows_down_does_not_wait(now):
    """Each step takes a hundredth of a millisecond more than the one before, whether it is fed or not."""
    fed = data_waiting.FedStep(dataclasses.replace(TINY, seconds=1.0))
    fed.step = SlowStep(now, slower=1e-5)
    ready = (torch.zeros(1) for _ in range(1000))
    assert fed.measure(ready, print)["waiting_share"] == pytest.approx(0, abs=0.01)
    assert fed.step.seconds > 0.011  # or nothing was tested


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_every_source_has_its_share_of_waiting_where_there_is_a_gpu(monkeypatch):
    """The measurement of a GPU, with the CPU in its place: what it measures, and that it says so as it goes."""
    monkeypatch.setattr(data_waiting, "build_step", lambda *_, **__: SlowStep([0.0]))
    monkeypatch.setattr(Settings, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(streaming, "WRITERS", dict(list(streaming.WRITERS.items())[:2]))
    monkeypatch.setattr(streaming, "nvjpeg", lambda device: None)  # and it decodes
    said = []
    table = loader.measure_loader(TINY, said.append)
    first, store, *streamed = table.rows
    first_kind, second = streaming.WRITERS
    ways = ("", ", decoded by the GPU")
    sources = [*(first_kind + way for way in (*ways, ", from a cache")), *(second + way for way in ways)]
    assert [row["name"] for row in streamed] == [f"not prepared, {source}" for source in sources]
    assert "waiting_share" not in first
    for row in (store, *streamed):
        assert 0 <= row["waiting_share"] < 1
        assert row["samples_per_second"] > 0
    for name in ("the store", *sources):
        assert any(line.startswith(f"fed from {name}: ") and "of which it waits for" in line for line in said)
    assert json.loads(json.dumps(table.to_json()))["rows"][-1]["waiting_share"] == streamed[-1]["waiting_share"]
    assert table.notes[-1].startswith("Waiting: 1 − ")
