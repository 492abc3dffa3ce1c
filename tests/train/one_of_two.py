"""Run by a test, it becomes two processes: runs that are stopped, spoiled and shut out, and what becomes of both."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import torch
from watched import StopAfter, progress

import care.cli
from care.train import Config, Interrupted, Progress, distributed, loop, prepare, train
from care.train.state import build_state
from care.train.step import Step

loop.STEPS_BETWEEN_MESSAGES = 1  # epochs have three steps
ENDS = (Interrupted, FloatingPointError, ValueError, OSError)


class BlockCheckpoints(Progress):
    """After the first step, a file is where the folder of checkpoints should be."""

    def __init__(self, run):
        self.run = run

    def step(self, *_):
        (self.run / "checkpoints").write_text("in the way")


def ending(work, *args):
    """How a run ends: None as it should, or the error."""
    try:
        work(*args)
    except ENDS as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(config, folder, resume=False, progress=None):
    train(prepare(config, folder, resume), progress)


def stopped(config, folder, rank):
    """SIGTERM to one process within an epoch, Ctrl-C to the other at the end of an epoch, and to the end."""
    ends = [ending(run, config, folder / "stopped", False, StopAfter(1, signal.SIGTERM) if rank == 1 else None)]
    if rank == 0:
        shutil.copytree(folder / "stopped", folder / "two to one")
    distributed.any_rank(False)  # both have come here
    ends += [ending(run, config, folder / "stopped", True, StopAfter(1, signal.SIGINT) if rank == 0 else None)]
    return [*ends, ending(run, config, folder / "stopped", True)]


def watched_run(config, folder):
    job, rows = progress(prepare(config, folder, resume=True))
    train(job)
    return rows


def spoiled_gradient(config, folder, rank):
    """On the second process alone, the gradient of the second step has an infinity; the loss has none."""
    job = prepare(config, folder)
    state = build_state(config, job.samples, job.processes)
    step = Step(state, config, job.processes, job.steps_per_epoch)
    rows = job.processes.rows(config.batch_size)
    step([job.samples.inputs[: config.batch_size][rows]], 0)
    if rank == 1:
        next(state.objective.encoder.parameters()).register_hook(lambda gradient: gradient * torch.inf)
    before = kept(state)
    end = ending(step, [job.samples.inputs[config.batch_size :][: config.batch_size][rows]], 0)
    return {"end": end, "same": all(torch.equal(value, before[name]) for name, value in kept(state).items())}


def kept(state):
    """All that a step changes: parameters, and the optimizer's moments."""
    moments = {f"{k} {i}": v for i, s in state.optimizer.state_dict()["state"].items() for k, v in s.items()}
    tensors = dict(state.objective.named_parameters()) | moments
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def become_two(folder):
    """Return in each of two processes that share one import, told its rank. Here, note their numbers and their ends."""
    children = []
    for rank in ("0", "1"):
        children.append(os.fork())
        if not children[-1]:
            os.environ["RANK"] = rank
            os.dup2(os.open(folder / f"errors-{rank}", os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
            return
    (folder / "processes.json").write_text(json.dumps(children))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (folder / "codes.json").write_text(json.dumps(codes))
    sys.exit()


def main(folder):
    rank = distributed.start("cpu").rank
    config = Config.read(folder / "config.toml")
    block = BlockCheckpoints(folder / "blocked") if rank == 0 else None
    report = {
        "whole": ending(run, config, folder / "whole"),
        "stopped": stopped(config, folder, rank),
        "rows": watched_run(config, folder / "one to two"),
        "photos": ending(run, Config.read(folder / "photos.toml"), folder / "photos on one to two", True),
        "gradient": spoiled_gradient(config, folder / "spoiled", rank),
        "blocked": ending(run, config, folder / "blocked", False, block),
        "held": ending(prepare, config, folder / "held"),
        "other": ending(prepare, config.replace(data=str(folder / f"data{rank or ''}")), folder / "other"),
    }
    (folder / f"report-{rank}.json").write_text(json.dumps(report))
    sys.argv = ["care", "train", "--config", str(folder / "config.toml"), "--epochs", "1000"]
    sys.argv += ["--out", str(folder / "signals"), "--save-minutes", "0"]
    care.cli.main()


if __name__ == "__main__":
    become_two(Path(sys.argv[1]))
    main(Path(sys.argv[1]))
