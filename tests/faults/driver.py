"""`care train` as a real process that is killed again and again, and the comparison with a run that never was."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from care.train.checkpoint import load_latest
from train.small import same_state

BEGUN = ("no checkpoint to resume from", "resumed after step")
EVERY_STEP, EVERY_EPOCH = "0", "1000"  # --save-minutes


@dataclass(frozen=True)
class Faults:
    """What a training has survived: how many kills, how many of them within a save, and where it went on after each."""

    kills: int
    within_a_save: int
    resumed_after: tuple[int, ...]
    seconds: float


def start(folder: Path, *options: str) -> subprocess.Popen:
    """`care train --resume` of `folder/config.toml` into `folder/killed`, its output in `folder/output`."""
    command = [sys.executable, "-u", "-m", "care", "train", "--config", "config.toml", "--out", "killed", "--resume"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as in the test: threads decide the order of additions
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [*command, *options], cwd=folder, env=one_thread, stdout=output, stderr=subprocess.STDOUT
        )


def wait_until(condition, process: subprocess.Popen, folder: Path, pause: float = 0.0005) -> None:
    """Return when the condition holds. A process that ends before, or never gets there, is an error with its output."""
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, f"ended with {process.returncode}: {(folder / 'output').read_text()}"
        assert time.monotonic() < deadline, (folder / "output").read_text()
        time.sleep(pause)


def half_written(run: Path) -> list[Path]:
    return [*run.glob(".incomplete-*"), *run.glob("checkpoints/.incomplete-*")]


def newest(run: Path) -> str:
    return max((path.name for path in run.glob("checkpoints/step-*")), default="")


def kill(folder: Path, saves: int, moment: float, within_a_save: bool, options: tuple[str, ...], meanwhile) -> bool:
    """Go on with the run, and kill it after so many saves, `moment` seconds later or in the next save after that.

    Whether it died within one.
    """
    process = start(folder, *options)
    try:
        wait_until(lambda: any(word in (folder / "output").read_text() for word in BEGUN), process, folder, pause=0.02)
        meanwhile()
        for _ in range(saves):
            before = newest(folder / "killed")
            wait_until(lambda before=before: newest(folder / "killed") != before, process, folder)
        time.sleep(moment)
        if within_a_save:
            wait_until(lambda: half_written(folder / "killed"), process, folder)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, f"it had ended: {(folder / 'output').read_text()}"
    return bool(half_written(folder / "killed"))


def kill_often(folder: Path, kills: int, saves: int, seconds: float, seed: int, meanwhile=lambda: None) -> Faults:
    """Kill a training, which saves every step or epoch, up to so many saves and seconds after each start.

    Every other time, within the next save after that.
    """
    started, draw, within, steps = time.monotonic(), random.Random(seed), 0, []
    for number in range(kills):
        often = ("--save-minutes", EVERY_STEP if number % 3 else EVERY_EPOCH)
        within += kill(folder, draw.randint(0, saves), draw.uniform(0, seconds), number % 2 == 0, often, meanwhile)
        saved = load_latest(folder / "killed" / "checkpoints")
        assert saved is None or not saved.skipped, "a checkpoint was damaged"
        steps.append(saved.step if saved else 0)
    assert steps == sorted(steps), "what was saved once has been lost"
    return Faults(kills, within, tuple(steps), time.monotonic() - started)


def same_run(a: Path, b: Path) -> bool:
    """Whether two finished runs have the same files, the same weights, checkpoint and log to the bit, and no rest."""
    states = [max((run / "checkpoints").iterdir()) / "state.json" for run in (a, b)]
    left, right = (json.loads(file.read_text())["state"] for file in states)
    assert not half_written(a) + half_written(b)
    return same_state(a, b) and left == right and (a / "config.toml").read_bytes() == (b / "config.toml").read_bytes()
