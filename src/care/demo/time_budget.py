"""How much this computer can train while the user waits, estimated by timing a few steps."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

import torch

from care.train.job import Job
from care.train.state import build_state
from care.train.step import Step

PATIENCE = 150.0  # seconds for everything; idle cores need half of that
REST = 0.4  # the time of everything else (data, measuring, drawing), relative to training on all pictures
SHARES = (1.0, 0.75, 0.5, 0.25)  # of the training pictures: with fewer, classes are hardly recognized
TIMED_STEPS = 5
WORTH_THREADS = 1.25  # the least speedup for which several threads are used; two idle cores reach 1.5


@contextmanager
def threads_restored() -> Iterator[None]:
    """Restore torch's number of threads afterwards."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def least_seconds(jobs: Sequence[Job]) -> float:
    """Estimate how long training will take with one thread or with all, and leave torch with the faster choice.

    Threads wait for each other after every layer. If other programs use the cores, one thread is always late, and a
    small speedup over a few steps need not last.
    """
    every = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = [seconds_of(job) for job in jobs]
    if every == 1:
        return sum(alone)
    torch.set_num_threads(every)
    speedup = alone[0] / seconds_of(jobs[0], most=alone[0] * TIMED_STEPS / jobs[0].total_steps)
    if speedup < WORTH_THREADS:
        torch.set_num_threads(1)
        return sum(alone)
    return sum(alone) / speedup


def seconds_of(job: Job, clock: Callable[[], float] = time.perf_counter, most: float = math.inf) -> float:
    """Estimate how long training will take, from the mean time of some steps of a throwaway network.

    The mean counts slow steps: if other programs use the cores, a few steps take most of the time. No further step is
    timed once `most` seconds are over.
    """
    state = build_state(job.config, job.samples, job.processes)
    step = Step(state, job.config, job.processes, job.steps_per_epoch)
    batch, at = job.samples.limit(job.config.batch_size).inputs, [clock()]
    while len(at) <= min(TIMED_STEPS, job.total_steps) and at[-1] - at[0] < most:
        step([batch], epoch=0)
        at.append(clock())
    steps = [after - before for before, after in itertools.pairwise(at)]
    return job.total_steps * fmean(steps[1:] or steps)  # the first one also loads and plans, once


def affordable(seconds: float) -> float:
    """The largest share of the pictures, all of which take `seconds` to train on, that leaves the demo in time."""
    *most, least = SHARES
    return next((share for share in most if (share + REST) * seconds <= PATIENCE), least)
