"""Run trials: train and evaluate those that are missing, and load the others."""

import dataclasses
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from care.atomic_files import Lock, make_folder
from care.evaluate import Evaluation, EvaluationSetup, evaluate_model
from care.pretrained import run_setup
from care.progress import ProgressCallback
from care.provenance import provenance
from care.reproduce.transferring import measured_transfer, missing_transfers
from care.reproduce.trial import Outcome, Trial, find_outcome
from care.train import CallbackProgress, Config, Run, prepare, train
from care.train.compiling import forget_compiled
from care.train.distributed import resolve_device
from care.train.job import load_samples

SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_BETWEEN_TRAININGS = 0.5


@dataclass(frozen=True)
class Runner:
    """Where and how trials are run: run folders are in `runs`, records of outcomes in `kept`.

    `opened` is when the command started, on the clock of `time.perf_counter`: the first trial's time includes startup.
    """

    runs: Path
    kept: Path
    device: str = "auto"
    compile: bool = False
    opened: float = field(default_factory=time.perf_counter)

    def find(self, trial: Trial) -> Outcome | None:
        """The outcome of the trial, if it is done; with arrays, if it was run in this folder."""
        run = Run(self.runs / trial.slug)
        folder = run.folder / "evaluation"
        arrays = Evaluation.load(folder).arrays if (folder / "evaluation.json").exists() else {}
        found = find_outcome(trial, self.kept, arrays)
        return dataclasses.replace(found, run=run.folder) if found is not None and run.weights.exists() else found

    def complete(self, trial: Trial) -> Outcome | None:
        """The outcome of the trial; None also if its transfer to a data set that is now prepared is still missing."""
        found = self.find(trial)
        return None if found is not None and found.run is not None and missing_transfers(found) else found

    def on_device(self, config: Config) -> Config:
        """`config` with the device and the compile setting of this runner."""
        return config.replace(device=resolve_device(self.device), compile=self.compile)


def run_trials(trials: Sequence[Trial], runner: Runner, progress: ProgressCallback) -> list[Outcome]:
    """Run all trials, and return their outcomes in the same order.

    Several processes may do this at once in the same folders: each takes a trial that no other process is running. A
    stopped trial goes on from its last checkpoint when this is called again.
    """
    found: dict[str, Outcome] = {}
    wanted = {trial.slug: trial for trial in trials}  # a study may have one training under two labels
    begun = runner.opened
    make_folder(runner.runs)
    while len(found) < len(wanted):
        before = len(found)
        for slug in [slug for slug in wanted if slug not in found]:
            if outcome := runner.complete(wanted[slug]) or _run_unless_locked(wanted[slug], runner, progress, begun):
                found[slug], begun = outcome, time.perf_counter()
                progress("trials", len(found), len(wanted))
        if len(found) == before:
            time.sleep(SECONDS_BETWEEN_LOOKS)  # other processes run the rest
            begun = time.perf_counter()
    return [dataclasses.replace(found[trial.slug], trial=trial) for trial in trials]


def _run_unless_locked(trial: Trial, runner: Runner, progress: ProgressCallback, begun: float) -> Outcome | None:
    """The outcome of the trial, with what was missing of it; None if another process has its lock."""
    try:
        lock = Lock(runner.runs / f".{trial.slug}.lock")
    except BlockingIOError:
        return None
    try:
        if (outcome := runner.find(trial)) is None:
            return run_trial(trial, runner, progress, begun)
        if (complete := runner.complete(trial)) is not None:
            return complete
        setup = _setup(Run(runner.runs / trial.slug), runner.on_device(trial.config))
        return with_transfer(outcome, setup, runner, progress)
    finally:
        lock.release()


def run_trial(trial: Trial, runner: Runner, progress: ProgressCallback, begun: float) -> Outcome:
    """Train, from the last checkpoint if there is one, evaluate, and save the outcome.

    If training was not interrupted, the outcome has the seconds from `begun` until the weights were saved.
    """
    run, config, seconds = Run(runner.runs / trial.slug), runner.on_device(trial.config), None
    if not run.weights.exists():
        _copy_shorter_run(run, config, runner)
        forget_compiled()
        at_one_go = not run.checkpoints.exists()
        with _gpu_lock(_gpu(config.device), runner.runs) as waited:
            train(prepare(config, run.folder, resume=True), CallbackProgress(f"training {trial.slug}", progress))
        seconds = round(time.perf_counter() - begun, 1) if at_one_go and not waited else None

    def measuring(stage: str, done: int, total: int) -> None:
        progress(f"{stage} of {trial.slug}", done, total)

    setup = _setup(run, config)
    evaluation = evaluate_model(setup, trial.measures, measuring)
    evaluation.save(run.folder / "evaluation")
    made = {**provenance(config.device), **_speed(run), "seconds_from_start": seconds}
    outcome = Outcome(trial, evaluation, run.log(), made, run.folder)
    outcome.save(runner.kept)  # before the transfer is measured, so that a failure there does not lose the outcome
    return with_transfer(outcome, setup, runner, progress)


def with_transfer(outcome: Outcome, setup: EvaluationSetup, runner: Runner, progress: ProgressCallback) -> Outcome:
    """Measure the transfer of the outcome's encoder to the data sets that are prepared, and save it."""
    if outcome.run is None or not missing_transfers(outcome):
        return outcome
    transfer = measured_transfer(outcome, setup, progress)
    transfer.save(outcome.run / "transfer")
    outcome = dataclasses.replace(outcome, transfer=transfer)
    outcome.save(runner.kept)
    return outcome


@contextmanager
def _gpu_lock(gpu: str | None, folder: Path) -> Iterator[bool]:
    """Train while no other process trains on the same GPU, if there is one; yields whether that had to be waited for.

    Two trainings at once take as long as two in turn. Measuring, in part work of the host, goes on meanwhile.
    """
    if gpu is None:
        yield False
        return
    lock, waited = _wait_for_lock(folder / f".training-{gpu}.lock")
    try:
        yield waited
    finally:
        lock.release()


def _wait_for_lock(file: Path) -> tuple[Lock, bool]:
    """(The lock of this file, whether another process had it first)."""
    waited = False
    while True:
        try:
            return Lock(file), waited
        except BlockingIOError:
            waited = True
            time.sleep(SECONDS_BETWEEN_TRAININGS)


def _gpu(device: str) -> str | None:
    """A name of the GPU that all processes have for it, whatever its number there."""
    return str(torch.cuda.get_device_properties(device).uuid) if torch.device(device).type == "cuda" else None


def _copy_shorter_run(run: Run, config: Config, runner: Runner) -> None:
    """Copy the longest finished run that equals this one but for fewer epochs, so that nothing is trained twice."""
    if (run.folder / "config.toml").exists():
        return
    shorter: dict[int, Path] = {}
    for file in runner.runs.glob("*/config.toml"):
        with suppress(ValueError):  # damaged, or of another version of care: ignored here
            other = Run(file.parent)
            if other.weights.exists() and not config.obstacles(other.config()):
                shorter[other.config().epochs] = file.parent
    if shorter:
        source = shorter[max(shorter)]
        shutil.copytree(source / "checkpoints", run.checkpoints, dirs_exist_ok=True)
        for name in ("log.jsonl", "speed.jsonl", "config.toml"):  # config.toml last: it marks the copy as complete
            shutil.copy(source / name, run.folder / name)


def _setup(run: Run, config: Config) -> EvaluationSetup:
    """The trained encoder with its held-out samples, and its labeled training samples to fit classifiers to."""
    labeled = config if config.validation else config.replace(split="train")
    split = "validation" if config.validation else "test"
    return run_setup(run.folder, config, *load_samples(labeled), split=split)


def _speed(run: Run) -> dict[str, Any]:
    """How long all epochs took, including resumed ones, and the rate that the fastest tenth reached.

    The first epoch compiles, and others may share the GPU with what another process measures.
    """
    epochs = [json.loads(line) for line in (run.folder / "speed.jsonl").read_text().splitlines()]
    rates = sorted(epoch["samples_per_second"] for epoch in epochs[1:] or epochs)
    return {
        "training_seconds": sum(epoch["seconds"] for epoch in epochs),
        "samples_per_second": rates[len(rates) * 9 // 10],
    }
