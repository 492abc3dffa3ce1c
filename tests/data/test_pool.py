"""Processes that call a function for their parent, each when its turn comes."""

import multiprocessing
import os
import signal
import sys
import time
from itertools import pairwise

import pytest

from care.data import pool as processes
from care.data.pool import Pool, cores_of_this_process
from care.data.readers import decoding

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads decode elsewhere")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order_whoever_is_first(platform, workers, monkeypatch):
    """By processes, or by threads; what is called knows its surroundings, and need not be pickled."""
    monkeypatch.setattr(sys, "platform", platform)
    offset = 100

    def slow_at_first(i):
        time.sleep(0.02 if i % 3 == 0 else 0)
        return i + offset, os.getpid()

    with Pool(slow_at_first, workers) as pool:
        found = list(pool.in_order(range(20)))
        assert pool.submit(7)()[0] == 107
    assert [number for number, _ in found] == list(range(100, 120))
    processes = {process for _, process in found}
    assert (processes == {os.getpid()}) == (platform == "darwin")
    assert len(processes) <= workers


def test_only_a_few_calls_are_begun_ahead():
    begun = []
    with Pool(lambda i: i, 2) as pool:
        found = pool.in_order(begun.append(i) or i for i in range(1000))
        assert next(found) == 0
    assert len(begun) <= 2 * 2 + 1


@on_linux
def test_errors_come_to_the_parent():
    def fail(reason):
        if reason == "killed":
            os._exit(1)
        raise ValueError(reason)

    with Pool(fail, 1) as pool, pytest.raises(ValueError, match="planted"):
        pool.submit("planted")()
    with Pool(fail, 1) as pool, pytest.raises(OSError, match="was killed: is there too little memory"):
        pool.submit("killed")()


@on_linux
def test_giant_pictures_are_decoded_one_at_a_time_by_all_processes_together():
    """The lock that `decode` takes is one for all: no two of these stretches of time overlap."""

    def stretch(_):
        with decoding.LARGE:
            begun = time.monotonic()
            time.sleep(0.02)
            return begun, time.monotonic(), os.getpid()

    with Pool(stretch, 3) as pool:
        found = sorted(pool.in_order(range(9)))
    assert len({process for *_, process in found}) > 1
    assert all(end <= begun for (_, end, _), (begun, _, _) in pairwise(found))


def test_processes_of_torchrun_share_the_cores(monkeypatch):
    monkeypatch.setattr("care.data.pool.all_cores", lambda: 16)
    assert cores_of_this_process() == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert cores_of_this_process() == 5


@on_linux
def test_signals_that_come_before_a_process_has_begun_do_not_end_it(monkeypatch):
    begin = processes._begin

    def late(*arguments):
        time.sleep(0.3)
        begin(*arguments)

    monkeypatch.setattr(processes, "_begin", late)
    before = set(multiprocessing.active_children())
    with Pool(abs, 2) as pool:
        first = pool.submit(-3)
        for process in set(multiprocessing.active_children()) - before:
            os.kill(process.pid, signal.SIGINT)
            os.kill(process.pid, signal.SIGTERM)
        assert first() == 3
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()).isdisjoint(processes.ENDING)
