"""Training, from top to bottom."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from care import data
from care.atomic_files import Lock
from care.data import Samples, batches, place
from care.data.registry import heldout_split
from care.geometry import form_named
from care.objective import policy_for
from care.randomness import epoch_order
from care.train import checkpoint, distributed
from care.train.arithmetic import cudnn_benchmark, deterministic_algorithms, set_cublas_workspace
from care.train.config import Config
from care.train.distributed import Processes
from care.train.monitor import Monitor
from care.train.progress import Progress
from care.train.runs import Run, view_source
from care.train.state import State, build_state, check_network, check_unchanged
from care.train.step import Step
from care.train.writer import Writer

SAVE_MINUTES = 15.0
# What a process may want after a step; the highest of all processes is done.
GO_ON, SAVE, STOP = range(3)


class Interrupted(Exception):
    """A signal asked to stop. The state has been saved."""


@dataclass(frozen=True)
class Job:
    """What does not change while training."""

    config: Config
    run: Run
    resume: bool
    processes: Processes
    samples: Samples
    heldout: Samples
    save_minutes: float
    lock: Lock | None

    @property
    def steps_per_epoch(self) -> int:
        """Full batches only: what is left over comes up in another epoch's order."""
        return len(self.samples) // self.config.batch_size

    @property
    def total_steps(self) -> int:
        """The steps of the whole run."""
        return self.config.epochs * self.steps_per_epoch

    @property
    def micro_batch(self) -> int:
        """How many samples, over all processes, go through the network at once."""
        return self.config.batch_size // self.config.accumulate


def prepare(config: Config, out: str | Path, resume: bool = False, save_minutes: float = SAVE_MINUTES) -> Job:
    """Check everything that can be wrong with what the user asked for, and make or find the run folder.

    `resume` goes on with the run in `out`, if there is one. A checkpoint is saved after every epoch, and within one
    when `save_minutes` have passed since the last. The folder is this run's until `train` has ended.
    """
    run = Run(Path(out))
    if resume:
        check_unchanged(run)
    if config.deterministic:
        set_cublas_workspace()
    processes = distributed.start(config.device)
    config.check(config.batch_size // config.accumulate, processes.world_size)
    samples, heldout = load_samples(config)
    if len(samples) < config.batch_size:
        raise ValueError(f"{len(samples)} samples do not fill one batch of {config.batch_size}: choose a smaller one")
    check_network(config, samples.source, begins=not (resume and run.has_checkpoint))
    lock = distributed.on_rank_0(processes, run.begin, config, resume)
    return Job(config, run, resume, processes, samples, heldout, save_minutes, lock)


def train(job: Job, progress: Progress | None = None) -> None:
    """Train to the end, from the start or from the last checkpoint, and leave a finished run folder."""
    try:
        _train(job, progress or Progress())
    finally:
        if job.lock is not None:
            job.lock.release()


def _train(job: Job, progress: Progress) -> None:
    config, run, processes = job.config, job.run, job.processes
    saved = checkpoint.load_latest(run.checkpoints) if job.resume else None
    state = build_state(config, job.samples, processes, begins=saved is None)
    if saved is not None:
        state.restore(saved, processes)
        progress.say(*saved.skipped, f"resumed after step {saved.step}")
    elif job.resume:
        progress.say("no checkpoint to resume from: from the start")
    step = Step(state, config, processes, job.steps_per_epoch)
    policy = policy_for(config.monitored_policy, view_source(config, job.samples.source)[0])
    form, part = form_named(config.form), config.equivariant_dim
    monitor = Monitor(job.samples, job.heldout, policy, form, config.seed, part)
    samples, steps = place(job.samples, processes.device), job.steps_per_epoch
    save_due = _clock(job.save_minutes)

    arithmetic = deterministic_algorithms() if config.deterministic else cudnn_benchmark()
    with _signals() as stop_wanted, arithmetic, Writer() as writer:
        for epoch in range(state.step // steps, config.epochs):
            started, first_step, end = time.perf_counter(), state.step, (epoch + 1) * steps
            inputs = batches(samples, _indices(job, epoch, state.step), processes.device)
            while state.step < end:
                step([next(inputs) for _ in range(config.accumulate)], epoch)
                progress.step(epoch, state.step - epoch * steps, steps, config, state.sums)
                wanted = distributed.all_reduce_max(STOP if stop_wanted() else SAVE if save_due() else GO_ON)
                if wanted != GO_ON and state.step < end:  # at the end of an epoch, after its line in the log
                    step.finite.wait(state.sums, state.step)
                    state.save(run, config, processes, writer)
                    save_due = _clock(job.save_minutes)
                    if wanted == STOP:
                        _stop(processes, writer)
            step.finite.wait(state.sums, state.step)  # before anything is made of them; and now the clock is right
            means = _means(state, job)
            seconds = time.perf_counter() - started
            state.log = [*state.log, _record(job, state, means, monitor, epoch)]
            state.clear()
            speed = _speed(epoch, seconds, (state.step - first_step) * config.batch_size)
            state.save(run, config, processes, writer, partial(_note, run, state.log, speed))
            save_due = _clock(job.save_minutes)
            distributed.on_rank_0(processes, progress.epoch, state.log[-1])
            if wanted == STOP:
                _stop(processes, writer)
        distributed.on_rank_0(processes, writer.wait)
    distributed.on_rank_0(processes, _finish, job, state)


def load_samples(config: Config) -> tuple[Samples, Samples]:
    """(what to train on, what to watch): the test or val split, or `validation` samples per class cut from train."""
    samples = data.load(config.data, config.split)
    if config.validation:
        samples, heldout = samples.split(config.validation)
    else:
        heldout = data.load(config.data, heldout_split(config.data))
    return (samples if config.limit is None else samples.limit(config.limit)), heldout


def _indices(job: Job, epoch: int, step: int) -> Iterator[Tensor]:
    """The rows of this process in every micro-batch that is left of the epoch after `step` steps of the run."""
    order = epoch_order(len(job.samples), job.config.seed, epoch)[: job.steps_per_epoch * job.config.batch_size]
    done = (step - epoch * job.steps_per_epoch) * job.config.accumulate
    for micro_batch in order.split(job.micro_batch)[done:]:
        yield micro_batch[job.processes.rows(job.micro_batch)]


def _means(state: State, job: Job) -> dict[str, float]:
    """The terms of the loss, averaged over the epoch and all processes."""
    steps = job.processes.world_size * job.steps_per_epoch
    return {name: (distributed.all_reduce(value) / steps).item() for name, value in state.sums.items()}


def _record(job: Job, state: State, means: dict[str, float], monitor: Monitor, epoch: int) -> dict[str, Any]:
    """The log's line for a finished epoch: the mean terms of the loss, and the measures."""
    config = job.config
    rate = float(state.optimizer.param_groups[0]["lr"])
    record: dict[str, Any] = {"epoch": epoch + 1, "step": state.step, **means, "learning_rate": rate}
    if job.processes.is_rank_0 and ((epoch + 1) % config.evaluate_every == 0 or epoch + 1 == config.epochs):
        record |= monitor.measure(state.encoder, job.processes.device)
    return record


def _speed(epoch: int, seconds: float, samples: int) -> dict[str, int | float]:
    return {"epoch": epoch + 1, "seconds": round(seconds, 3), "samples_per_second": round(samples / seconds, 1)}


def _note(run: Run, log: list[dict[str, Any]], speed: dict[str, int | float]) -> None:
    """The end of an epoch, for those who read along."""
    run.write_log(log)
    run.add_speed(speed)


def _finish(job: Job, state: State) -> None:
    """What a finished run folder has; the log again, since a run killed at its end is resumed after its last epoch."""
    job.run.write_log(state.log)
    source = view_source(job.config, job.samples.source)
    job.run.save_encoder(state.encoder, job.config, source, state.exported())


def _stop(processes: Processes, writer: Writer) -> NoReturn:
    """Not before the state is on the disk."""
    distributed.on_rank_0(processes, writer.wait)
    raise Interrupted


def _clock(minutes: float) -> Callable[[], bool]:
    """Whether that many minutes have passed since now."""
    end = time.monotonic() + 60 * minutes
    return lambda: time.monotonic() >= end


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """While training, SIGTERM and Ctrl-C ask to stop after the step instead of stopping at once."""
    wanted = False

    def ask(*_: object) -> None:
        nonlocal wanted
        wanted = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: wanted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
