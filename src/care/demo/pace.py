"""How much this computer can train while someone waits: a few steps are timed before all of them are done."""

import itertools
import time
from collections.abc import Callable, Iterable
from statistics import median

from care.train.job import Job
from care.train.state import build_state
from care.train.step import Step

PATIENCE = 90.0  # seconds for everything
REST = 0.4  # what is not training (data, measuring, drawing) takes of the time of training on all pictures
SHARES = (1.0, 0.5, 0.25)  # of the pictures: with less, there is no class to speak of
TIMED_STEPS = 4


def seconds_of(job: Job, clock: Callable[[], float] = time.perf_counter) -> float:
    """How long training will take, by the median of some steps of a network that is thrown away."""
    state = build_state(job.config, job.samples, job.processes)
    step = Step(state, job.config, job.processes, job.steps_per_epoch)
    batch, at = job.samples.limit(job.config.batch_size).inputs, [clock()]
    for _ in range(min(TIMED_STEPS, job.total_steps)):
        step([batch], epoch=0)
        at.append(clock())
    # The first step also loads and plans, once.
    return job.total_steps * median(after - before for before, after in itertools.pairwise(at[1:]))


def affordable(seconds: float, shares: Iterable[float] = SHARES) -> float:
    """The largest share of a training of so many `seconds` with which all is done in time; else the smallest."""
    *most, least = sorted(shares, reverse=True)
    return next((share for share in most if (share + REST) * seconds <= PATIENCE), least)
