"""Loggers: send the log of a training to TensorBoard, Weights & Biases or MLflow, and to files in the run folder.

All loggers receive the same values: the log's record of every epoch as `epochs/loss`, …, over epochs, and the means
over several steps as `steps/loss`, …, over steps.
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
    """Writes the means over steps to `steps.jsonl`, and removes a killed process's lines of steps that run again."""

    def __init__(self, run: Run) -> None:
        self.run, self.is_new = run, True

    def step(self, epoch: int, step: int, steps: int, config: Config, sums: Mapping[str, Tensor]) -> None:
        """At the first step, remove old lines of this and later steps."""
        if self.is_new:
            self.run.drop_steps(epoch * steps + step)
            self.is_new = False

    def means(self, record: Mapping[str, Any]) -> None:
        """Add a line."""
        self.run.add_step(dict(record))


class Logger(Progress):
    """Sends the log to another program. If that fails, it says so once, and the training continues."""

    package = ""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder, self.is_broken = folder, False
        try:
            self.start(config)
        except Exception as error:  # the other package may raise any type: no network, no account, no server
            raise ValueError(f"{self.package} cannot start: {_in_one_line(error)}") from error

    def start(self, config: Config) -> None:
        """Start the record of the run in `folder`, or continue it."""
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
        """The name of this run in the other program, if it has one."""
        file = self.folder / f"{self.package}-id.json"
        return json.loads(file.read_text()) if file.exists() else None

    def remember_id(self, name: str) -> None:
        """Save the name, for when the run is resumed."""
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
        """Open an event file; a resumed run opens another one."""
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
    """Sends to Weights & Biases, which its environment variables configure: WANDB_MODE=offline sends nothing.

    The project is WANDB_PROJECT, by default `care`. Files are in the folder `wandb` of the run.
    """

    package = "wandb"

    def start(self, config: Config) -> None:
        """Start a run under a name of our own, or continue it."""
        import wandb

        name = self.known_id() or secrets.token_hex(4)
        project = os.environ.get("WANDB_PROJECT", "care")
        settings = {"id": name, "resume": "allow", "name": self.folder.resolve().name, "config": config.flat()}
        self.run = wandb.init(project=project, dir=str(self.folder), **settings)
        self.remember_id(name)
        for axis in ("epoch", "step"):
            self.run.define_metric(f"{axis}s/*", step_metric=axis)

    def write(self, values: Values, axis: str, at: int) -> None:
        """Send values with their position as a value, so that repeated steps of a resumed run are not refused."""
        self.run.log({**values, axis: at})

    def close(self, complete: bool) -> None:
        """Upload the rest, and report how the run ended."""
        self.run.finish(exit_code=0 if complete else 1)


class MLflow(Logger):
    """Sends to MLflow, which its environment variables configure: without MLFLOW_TRACKING_URI, to local files."""

    package = "mlflow"

    def start(self, config: Config) -> None:
        """Start a run, or continue it. Settings are sent once, because MLflow does not let them change."""
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
        """Report how the run ended."""
        self.mlflow.end_run("FINISHED" if complete else "FAILED")


LOGGERS: dict[str, type[Logger]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow}


def check_loggers(names: Sequence[str]) -> None:
    """ValueError, before any work, for an unknown logger or one whose package is not installed."""
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"unknown logger {name!r}: choose one of {', '.join(LOGGERS)}")
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"the logger {name} needs the package {name}: install care-ssl[{name}]")


def observers(job: Job, every: int, names: Sequence[str], *others: Progress) -> Progress:
    """On rank 0, `others` and the named loggers, with the means over every `every` steps; nothing on other ranks.

    ValueError if a logger cannot start.
    """
    if not job.processes.is_rank_0:
        return Progress()
    loggers = [LOGGERS[name](job.run.folder, job.config) for name in dict.fromkeys(names)]
    return StepMeans(every, *others, StepLines(job.run), *loggers) if every else Several(*others, *loggers)


def _numbers(record: Mapping[str, Any], group: str) -> Values:
    """The values of a record that are not None, without its epoch and step."""
    there = {name: value for name, value in record.items() if name not in ("epoch", "step") and value is not None}
    return {f"{group}/{name}": float(value) for name, value in there.items()}


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
