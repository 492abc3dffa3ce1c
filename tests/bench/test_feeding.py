"""How much of a step is waiting, for a step and a stream that take as long as we want."""

import re
import time

import pytest
import torch

from care.bench import default_settings, feeding

TINY = default_settings("cpu", batch_size=8, size=16, seconds=0.01, images=20)


class SleepingStep:
    """A step that takes as long as we want."""

    graph = None

    def __call__(self, inputs, epoch):
        assert len(inputs) == 1
        time.sleep(0.01)


def test_the_share_of_waiting_is_that_of_a_slow_stream(monkeypatch):
    """A step of 10 ms, and batches that come 30 ms after they are asked for: three quarters are waiting."""
    monkeypatch.setattr(feeding, "build_step", lambda *_, **__: SleepingStep())
    ended, said = [], []

    def slow():
        try:
            while True:
                time.sleep(0.03)
                yield torch.zeros(1)
        finally:
            ended.append(True)

    fed = feeding.FedStep(TINY)
    row = fed.measure(slow(), said.append)
    assert row["waiting_share"] == pytest.approx(0.75, abs=0.1)
    assert row["waiting_share"] == 1 - row["alone_ms"] / row["ms_per_step"]
    assert ended == [True]
    assert re.fullmatch(r"[\d.]+ ms a step fed, of which it waits for [\d.]+%", said[-1])
    ready = (torch.zeros(1) for _ in range(100))
    assert fed.measure(ready, said.append)["waiting_share"] < 0.2
