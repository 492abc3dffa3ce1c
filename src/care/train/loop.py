"""The training loop."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from torch import Tensor

from care.data import batches, place
from care.geometry import form_named
from care.objective import encoder_cost, policy_for
from care.train import checkpoint, distributed
from care.train.arithmetic import cudnn_benchmark, deterministic_algorithms
from care.train.collapse import collapse_warning
from care.train.distributed import Processes
from care.train.job import Job
from care.train.monitor import WITH_GRADIENT, Monitor, Stopped
from care.train.notes import notes
from care.train.progress import Progress
from care.train.runs import Run, view_shape
from care.train.schedule import rate_of
from care.train.state import State, build_state
from care.train.step import Step
from care.train.writer import Writer

# The wishes of a process after a step; the highest wish over all processes is carried out.
GO_ON, SAVE, STOP = range(3)
# How often processes exchange their wishes. A wish is carried out one exchange later, or at the end of the epoch.
STEPS_BETWEEN_MESSAGES = 4


class Interrupted(Exception):
    """Training was stopped by a signal. The state has been saved."""


def train(job: Job, progress: Progress | None = None) -> None:
    """Train to the end, from the start or from the last checkpoint, and leave a finished run folder."""
    try:
        with progress or Progress() as watching:
            _train(job, watching)
    finally:
        if job.lock is not None:
            job.lock.release()


def _train(job: Job, progress: Progress) -> None:
    config, run, processes, saving = job.config, job.run, job.processes, job.saving
    state = _begin(job, progress)
    step = Step(state, config, processes, job.steps_per_epoch)
    if step.compiled:
        progress.say("compiling the network and the augmentations: about a minute at the first start")
    samples, steps = place(job.samples, processes.device), job.steps_per_epoch
    save_due, agreed = _clock(saving.minutes), distributed.Agreement(STEPS_BETWEEN_MESSAGES)

    arithmetic = deterministic_algorithms() if config.deterministic else cudnn_benchmark()
    with _signals() as stop_wanted, arithmetic, Writer() as writer:
        monitor = _monitor(job, stop_wanted)
        every = config.evaluate_every or monitor.every(_passes(job, state))
        for epoch in range(len(state.log), config.epochs):
            started, first_step, end = time.perf_counter(), state.step, (epoch + 1) * steps
            order, seconds, wanted = _indices(job, epoch, state.step), 0.0, SAVE
            inputs = batches(samples, order, processes.device, whole=not state.objective.plan.squares)
            while state.step < end:
                step([next(inputs) for _ in range(config.accumulate)], epoch)
                progress.step(epoch, state.step - epoch * steps, steps, config, state.sums)
                asked = agreed(STOP if stop_wanted() else SAVE if save_due() else GO_ON)
                wanted = max(asked, SAVE if job.saves_after(state.step) else GO_ON)
                if wanted != GO_ON or state.step == end:
                    step.finite.wait(state.sums, state.step)  # before the sums are used, and before the clock is read
                    seconds = time.perf_counter() - started
                if wanted != GO_ON:
                    state.save(run, job.about, processes, writer, job.keep_every)
                    save_due = _clock(saving.minutes)
                if wanted == STOP:
                    _stop(processes, writer)
            # The state is saved by now, so measuring may be interrupted: it is repeated when the run is resumed.
            record = _record(job, state, monitor if (epoch + 1) % every == 0 or end == job.total_steps else None)
            if distributed.any_rank(record is None or stop_wanted()):
                if wanted == GO_ON:
                    state.save(run, job.about, processes, writer, job.keep_every)
                _stop(processes, writer)
            state.log = [*state.log, record or {}]
            state.clear()
            distributed.on_rank_0(processes, _note, run, state, _speed(job, state, first_step, seconds))
            distributed.on_rank_0(processes, progress.epoch, state.log[-1])
            if warning := collapse_warning(state.log, config.embedding_dim):
                progress.say(warning)
        distributed.on_rank_0(processes, writer.wait)
    distributed.on_rank_0(processes, _finish, job, state)


def _begin(job: Job, progress: Progress) -> State:
    """A new state, or that of the last checkpoint; tells the user what is worth knowing before the first step."""
    saved = _last_checkpoint(job) if job.resume else None
    state = build_state(job.config, job.samples, job.processes, begins=saved is None)
    if saved is not None:
        state.restore(saved, job.processes)
        progress.say(*saved.skipped, f"resumed after step {saved.step}")
    elif job.resume:
        progress.say("no checkpoint to resume from: starting from the beginning")
    progress.say(*notes(job))
    if not state.objective.embedded:
        progress.say("no loss uses the embeddings: the head keeps its random weights, so measure the backbone only")
    return state


def _last_checkpoint(job: Job) -> checkpoint.Checkpoint | None:
    """The newest checkpoint that is intact for rank 0, on every rank: ranks that searched alone could differ."""
    found = distributed.on_rank_0(job.processes, checkpoint.load_latest, job.run.checkpoints)
    name, problem = distributed.text_of_rank_0("" if found is None else found.path.name), None
    if name and found is None:
        try:
            found = checkpoint.load(job.run.checkpoints / name)
        except ValueError as error:
            problem = error
    if distributed.any_rank(problem is not None):
        raise problem or OSError(f"another process cannot read {name}: its error says why")
    return found


def _monitor(job: Job, stop: Callable[[], bool]) -> Monitor:
    config = job.config
    policy = policy_for(config.monitored_policy, view_shape(config, job.samples.input_shape)[0])
    form, part = form_named(config.form), config.equivariant_dim
    return Monitor(job.samples, job.heldout, policy, form, config.seed, part, config.limit, stop)


def _passes(job: Job, state: State) -> float:
    """The passes of a picture with gradient in an epoch; a teacher's passes, without gradient, count a third."""
    objective = state.objective
    views = encoder_cost(objective.plan, objective.method, getattr(objective.method, "settings", None))
    return (views + objective.teacher_views_count / WITH_GRADIENT) * job.steps_per_epoch * job.config.batch_size


def _indices(job: Job, epoch: int, step: int) -> Iterator[Tensor]:
    """The rows of this process in every remaining micro-batch of the epoch, after `step` steps of the run."""
    order = job.samples.order(job.config.seed, epoch)[: job.steps_per_epoch * job.config.batch_size]
    done = (step - epoch * job.steps_per_epoch) * job.config.accumulate
    for micro_batch in order.split(job.micro_batch)[done:]:
        yield micro_batch[job.processes.rows(job.micro_batch)]


def _means(state: State, job: Job) -> dict[str, float]:
    """The terms of the loss, averaged over the epoch and all processes."""
    steps = job.processes.world_size * job.steps_per_epoch
    return {name: (distributed.all_reduce(value) / steps).item() for name, value in state.sums.items()}


def _record(job: Job, state: State, monitor: Monitor | None) -> dict[str, Any] | None:
    """The log's line for a finished epoch: the mean terms of the loss, and the measures; None if it was stopped."""
    # The rate of the last step. If the run was resumed after that step, the optimizer does not have it.
    rate = rate_of(job.config, state.step - 1, job.steps_per_epoch)
    epoch = {"epoch": state.step // job.steps_per_epoch, "step": state.step}
    record = {**epoch, **_means(state, job), "learning_rate": rate}
    try:
        found = monitor.measure(state.encoder, job.processes.device) if monitor and job.processes.is_rank_0 else {}
    except Stopped:
        return None
    return {**record, **found}


def _speed(job: Job, state: State, first_step: int, seconds: float) -> dict[str, int | float] | None:
    """The speed of the epoch; None if all its steps were done before the run was resumed."""
    samples = (state.step - first_step) * job.config.batch_size
    about = {"epoch": state.step // job.steps_per_epoch, "seconds": round(seconds, 3)}
    return {**about, "samples_per_second": round(samples / seconds, 1)} if samples else None


def _note(run: Run, state: State, speed: dict[str, int | float] | None) -> None:
    """Write the log and the speed at the end of an epoch."""
    run.write_log(state.log)
    if speed is not None:
        run.add_speed(speed)


def _finish(job: Job, state: State) -> None:
    """Write the encoder, and the log again: a run killed here is resumed after its last epoch."""
    job.run.write_log(state.log)
    input_shape = view_shape(job.config, job.samples.input_shape)
    job.run.save_encoder(state.encoder, job.config, input_shape, state.exported())


def _stop(processes: Processes, writer: Writer) -> NoReturn:
    """Stop as soon as the state is on the disk."""
    distributed.on_rank_0(processes, writer.wait)
    raise Interrupted


def _clock(minutes: float) -> Callable[[], bool]:
    """A function that tells whether `minutes` have passed since this call."""
    end = time.monotonic() + 60 * minutes
    return lambda: time.monotonic() >= end


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """During training, let SIGTERM, Ctrl-C and the death of torchrun request a stop after the current step."""
    wanted = False

    def ask(*_: object) -> None:
        nonlocal wanted
        wanted = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: wanted or distributed.launcher_is_gone()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
