"""Loggers: what a training logs, for TensorBoard, Weights & Biases, MLflow, and as lines in the run folder.

All of them get the same: the log's record of every epoch as `epochs/loss` …, over epochs, and the means over every so
many steps as `steps/loss` …, over steps.
"""

import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from care.atomic_files import write_atomically
from care.tables import visible
from care.train.config import Config
from care.train.job import Job
from care.train.progress import Progress, Several
from care.train.runs import Run
from care.train.step_means import StepMeans

Values = dict[str, float]


class StepLines(Progress):
    """Writes the means over steps to `steps.jsonl`. What a killed process wrote of steps that are made again, goes."""

    def __init__(self, run: Run) -> None:
        self.run, self.is_new = run, True

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """Before the first line, make room for it."""
        if self.is_new:
            self.run.drop_steps(epoch * steps + step)
            self.is_new = False

    def means(self, record: Mapping[str, Any]) -> None:
        """Add a line."""
        self.run.add_step(dict(record))


class Logger(Progress):
    """Sends what is logged to another program. If that fails, it says so once, and the training goes on."""

    package = ""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder, self.is_broken = folder, False
        try:
            self.start(config)
        except Exception as error:  # theirs, of any type: no network, no account, a server that is not there
            raise ValueError(f"{self.package} cannot start: {_in_one_line(error)}") from error

    def start(self, config: Config) -> None:
        """Begin, or go on with, the record of the run in `folder`."""
        raise NotImplementedError

    def write(self, values: Values, axis: str, at: int) -> None:
        """Send values at a position on the axis `epoch` or `step`."""
        raise NotImplementedError

    def close(self, complete: bool) -> None:
        """End the record."""
        raise NotImplementedError

    def means(self, record: Mapping[str, Any]) -> None:
        """Send the means over steps."""
        self._attempt(self.write, _numbers(record, "steps"), "step", record["step"])

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Send the record of an epoch."""
        self._attempt(self.write, _numbers(record, "epochs"), "epoch", record["epoch"])

    def finish(self, complete: bool) -> None:
        """End the record."""
        self._attempt(self.close, complete)

    def known_id(self) -> str | None:
        """The name under which the other program knows this run, if it does."""
        file = self.folder / f"{self.package}-id.json"
        return json.loads(file.read_text()) if file.exists() else None

    def remember_id(self, name: str) -> None:
        """Go on under this name when the run is resumed."""
        write_atomically(self.folder / f"{self.package}-id.json", json.dumps(name).encode())

    def _attempt(self, do: Callable[..., None], *arguments: Any) -> None:
        if self.is_broken:
            return
        try:
            do(*arguments)
        except Exception as error:
            self.is_broken = True
            sentence = f"care: {self.package} has failed: {_in_one_line(error)}; the training goes on without it"
            print(visible(sentence), file=sys.stderr, flush=True)


class TensorBoard(Logger):
    """Writes to the folder `tensorboard` of the run."""

    package = "tensorboard"

    def start(self, config: Config) -> None:
        """Open a file of events; that of a resumed run is another one."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder / "tensorboard"))

    def write(self, values: Values, axis: str, at: int) -> None:
        """A scalar per value."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, at)
        if axis == "epoch":
            self.writer.flush()

    def close(self, complete: bool) -> None:
        """Close the file."""
        self.writer.close()


class WeightsAndBiases(Logger):
    """Sends to Weights & Biases, by the rules of its own environment variables: WANDB_MODE=offline sends nothing.

    The project is `care`, or WANDB_PROJECT. Files are in the folder `wandb` of the run.
    """

    package = "wandb"

    def start(self, config: Config) -> None:
        """Begin a run under a name of our own, or go on with it."""
        import wandb

        name = self.known_id() or secrets.token_hex(4)
        project = os.environ.get("WANDB_PROJECT", "care")
        settings = {"id": name, "resume": "allow", "name": self.folder.resolve().name, "config": config.flat()}
        self.run = wandb.init(project=project, dir=str(self.folder), **settings)
        self.remember_id(name)
        for axis in ("epoch", "step"):
            self.run.define_metric(f"{axis}s/*", step_metric=axis)

    def write(self, values: Values, axis: str, at: int) -> None:
        """Values with their position: steps that a resumed run makes again are not refused."""
        self.run.log({**values, axis: at})

    def close(self, complete: bool) -> None:
        """Upload what is left, and say how it ended."""
        self.run.finish(exit_code=0 if complete else 1)


class MLflow(Logger):
    """Sends to MLflow, by the rules of its own environment variables: without MLFLOW_TRACKING_URI, to files here."""

    package = "mlflow"

    def start(self, config: Config) -> None:
        """Begin a run, or go on with it. Settings are sent once: MLflow does not let them change."""
        import mlflow

        self.mlflow, known = mlflow, self.known_id()
        run = mlflow.start_run(run_id=known) if known else mlflow.start_run(run_name=self.folder.resolve().name)
        if known is None:
            mlflow.log_params({name: value for name, value in config.flat().items() if value is not None})
            self.remember_id(run.info.run_id)

    def write(self, values: Values, axis: str, at: int) -> None:
        """All values at once."""
        self.mlflow.log_metrics(values, step=at)

    def close(self, complete: bool) -> None:
        """Say how it ended."""
        self.mlflow.end_run("FINISHED" if complete else "FAILED")


LOGGERS: dict[str, type[Logger]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow}


def check_loggers(names: Sequence[str]) -> None:
    """ValueError, before anything is done, if there is no such logger or its package is not installed."""
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"a logger is one of {', '.join(LOGGERS)}, not {name!r}")
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"the logger {name} needs the package {name}: install care-ssl[{name}]")


def watching(job: Job, every: int, names: Sequence[str], *others: Progress) -> Progress:
    """On the first process `others` and the loggers, with the means over every `every` steps; ValueError if one cannot
    start. Other processes watch nothing."""
    if not job.processes.is_rank_0:
        return Progress()
    loggers = [LOGGERS[name](job.run.folder, job.config) for name in dict.fromkeys(names)]
    return StepMeans(every, *others, StepLines(job.run), *loggers) if every else Several(*others, *loggers)


def _numbers(record: Mapping[str, Any], group: str) -> Values:
    """The numbers that are there, but for the positions on the axes."""
    there = {name: value for name, value in record.items() if name not in ("epoch", "step") and value is not None}
    return {f"{group}/{name}": float(value) for name, value in there.items()}


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
