"""Training on pictures that are not prepared: every one once an epoch, whoever shares it and whatever is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import pytest
import torch
from small import same_state, small_config
from watched import StopAfter

from care.cli.train_setup import configuration
from care.data import batches
from care.data.streamed.pictures import StreamedPictures
from care.train import Interrupted, Progress, distributed, loop, prepare, train
from care.train.job import load_samples
from care.whole_pictures import squares_and_aspects
from data.on_disk import WRITERS, write_files, write_tars

N, BATCH, EPOCHS = 36, 12, 2
STEPS = N // BATCH
KILLED_IN = 2 * STEPS - 1  # the step of the second epoch before its last

pytestmark = [
    # Decoding processes are forked, and the test process has threads.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads decode elsewhere"),
]


def numbers_in(batch):
    """Which pictures a batch holds, by the gray of their middle."""
    squares, _ = squares_and_aspects(batch)
    middle = squares.shape[-1] // 2
    return ((squares[:, 1, middle, middle].int() - 60) // 5).tolist()


def config_for(write, folder, **settings):
    write(folder, N)
    write(folder, 20, split="test")
    return config_of(folder, **settings)


def config_of(folder, **settings):
    chosen = {"epochs": EPOCHS, "batch_size": BATCH, "evaluate_every": EPOCHS, "size": 16, **settings}
    return small_config(str(folder), **chosen)


@pytest.mark.parametrize("kind", ["files", "tars"])  # without shards, and with
def test_processes_share_the_batches_of_one_from_any_step_on(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    job = prepare(config_for(WRITERS[kind], tmp_path / "photos"), tmp_path / "run")
    job.lock.release()

    def read(rank, world, epoch, step):
        process = dataclasses.replace(job, processes=distributed.Processes(rank, world, torch.device("cpu")))
        order = loop._indices(process, epoch, step)
        return [numbers_in(batch) for batch in batches(job.samples, order, "cpu", whole=True)]

    alone = read(0, 1, 1, STEPS)
    assert sorted(chain.from_iterable(alone)) == list(range(N))
    shares = [read(rank, 3, 1, STEPS) for rank in range(3)]
    assert [list(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)] == alone
    assert read(0, 1, 1, STEPS + 2) == alone[2:]
    assert alone != read(0, 1, 0, 0)


TOGETHER = """
import sys, pytest
from care.train import distributed
from care.train.job import Saving
from test_streamed_training import KILLED_IN, Path, Seen, config_of, loop, prepare, train

loop.STEPS_BETWEEN_MESSAGES = 1  # epochs have three steps
data, run, folder = map(Path, sys.argv[1:])
rank, first = distributed.start("cpu").rank, not folder.joinpath("again").exists()
seen = Seen(folder / f"seen-{rank}", pytest.MonkeyPatch(), KILLED_IN if first else None)
train(prepare(config_of(data), run, resume=True, saving=Saving(minutes=0.0)), seen)
"""


@pytest.mark.faults
def test_two_processes_that_are_killed_within_an_epoch_see_no_picture_twice(tmp_path, monkeypatch):
    """Both are killed by torchrun, one after the other; every picture of an epoch is seen once, by one of them."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    config = config_for(write_tars, tmp_path / "photos")
    (tmp_path / "program.py").write_text(TOGETHER)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [tmp_path / "program.py", config.data, tmp_path / "run", tmp_path]
    seen = [tmp_path / "seen-0", tmp_path / "seen-1"]
    with subprocess.Popen(command, env=environment) as launcher:
        wait_until(lambda: launcher.poll() is not None or min(map(last_step, seen)) == KILLED_IN)
        os.kill(children_of(launcher.pid)[0], signal.SIGKILL)
        assert launcher.wait(timeout=120) != 0
    before = [len(lines_of(file)) for file in seen]
    (tmp_path / "again").touch()
    subprocess.run(command, env=environment, check=True)
    again = [lines_of(file)[n:] for file, n in zip(seen, before, strict=True)]
    went_on = again[0][0][1]
    assert again[1][0][1] == went_on
    assert STEPS + 1 < went_on <= KILLED_IN
    steps = [lines_of(file)[: went_on - 1] + lines for file, lines in zip(seen, again, strict=True)]
    assert [[step for _, step, _ in lines] for lines in steps] == 2 * [list(range(1, EPOCHS * STEPS + 1))]
    for epoch in range(EPOCHS):
        numbers = [n for lines in steps for e, _, batch in lines if e == epoch for n in batch]
        assert sorted(numbers) == list(range(N))


PROGRAM = """
import sys, pytest
from pathlib import Path
from care.train.job import Saving
from test_streamed_training import KILLED_IN, Seen, config_of, prepare, train

data, run, file = map(Path, sys.argv[1:])
seen = Seen(file, pytest.MonkeyPatch(), KILLED_IN)
train(prepare(config_of(data), run, saving=Saving(minutes=0.0)), seen)
"""


class Seen(Progress):
    """Notes the pictures of every step in a file, and stays in one of them for good."""

    def __init__(self, file, monkeypatch, stay_in=None):
        self.file, self.stay_in, self.batch = file, stay_in, None
        monkeypatch.setattr(loop, "batches", self.watched)

    def watched(self, *args, **kwargs):
        for batch in batches(*args, **kwargs):
            self.batch = numbers_in(batch)
            yield batch

    def step(self, epoch, done, *_):
        with self.file.open("a") as file:
            file.write(json.dumps([epoch, epoch * STEPS + done, self.batch]) + "\n")
        if epoch * STEPS + done == self.stay_in:
            time.sleep(600)


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def children_of(process):
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process):
    try:
        return "zombie" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def last_step(file):
    """The last step that was noted; 0 before the first."""
    return max((step for _, step, _ in lines_of(file)), default=0)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    """A configuration, and a run with it that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = config_for(write_tars, folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARE_DATA", str(folder / "root"))
        train(prepare(config, folder / "run"))
    return config, folder / "run"


def test_a_run_that_is_killed_within_an_epoch_sees_no_picture_twice(imported, at_once, tmp_path, monkeypatch):
    """Killed after a save within the epoch; nothing that decodes outlives it."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    (config, whole), file, environment = at_once, tmp_path / "seen", {"CARE_DATA": str(tmp_path / "root")}
    arguments = (config.data, tmp_path / "run", file)
    with imported.start(PROGRAM, *arguments, folder=tmp_path, environment=environment) as child:
        wait_until(lambda: child.poll() is not None or last_step(file) == KILLED_IN)
        decoding = children_of(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert decoding
        wait_until(lambda: not any(map(is_running, decoding)))
    before = len(lines_of(file))
    train(prepare(config, tmp_path / "run", resume=True), Seen(file, monkeypatch))
    again = lines_of(file)[before:]
    assert STEPS + 1 < again[0][1] <= KILLED_IN  # within the second epoch
    steps = {step: (epoch, numbers) for epoch, step, numbers in lines_of(file)[: again[0][1] - 1] + again}
    assert list(steps) == list(range(1, EPOCHS * STEPS + 1))
    for epoch in range(EPOCHS):
        assert sorted(n for e, numbers in steps.values() if e == epoch for n in numbers) == list(range(N))
    assert same_state(tmp_path / "run", whole)


def test_a_run_is_the_same_with_a_cache_and_goes_on_without(at_once, tmp_path, monkeypatch):
    """The pictures that it trains on are decoded by the first run alone."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    config, without = at_once
    cached = config.replace(cache=str(tmp_path / "cache"))
    with pytest.raises(Interrupted):
        train(prepare(cached, tmp_path / "run"), StopAfter(STEPS + 1))
    train(prepare(config, tmp_path / "run", resume=True))
    assert same_state(without, tmp_path / "run")

    decode_into = StreamedPictures.decode_into

    def decode(self, *args):
        assert self.cache is None  # what is held out is decoded
        return decode_into(self, *args)

    monkeypatch.setattr(StreamedPictures, "decode_into", decode)
    train(prepare(cached, tmp_path / "again"))
    assert same_state(without, tmp_path / "again")


class Enough(Exception):
    """The first batch has come."""


@pytest.mark.parametrize(("equivariance", "whole"), [("care", True), ("steering", False)])
def test_an_equivariance_that_is_told_the_crop_sees_center_squares(equivariance, whole, tmp_path, monkeypatch):
    """One box for a chunk: of whole pictures, each would have its own."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    config = config_for(write_files, tmp_path / "photos", epochs=1, equivariance=equivariance)

    def first(*args, **kwargs):
        stream = batches(*args, **kwargs)
        shape = tuple(next(stream).shape)
        stream.close()
        raise Enough(shape)

    monkeypatch.setattr(loop, "batches", first)
    with pytest.raises(Enough) as caught:
        train(prepare(config, tmp_path / "run"))
    assert caught.value.args == ((BATCH, 3 * 19 * 19 + 2) if whole else (BATCH, 3, 19, 19),)


def test_samples_are_held_out_where_a_folder_has_no_others(tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    folder = str(write_tars(tmp_path / "photos", N))
    config = configuration({"data": folder, "batch_size": 8, "size": 16}, None, None, None, None)
    assert config.validation == 9  # 20 in all would be 10 of each class, which has 18: half of it is the most
    assert [len(samples) for samples in load_samples(config)] == [18, 18]
    assert load_samples(config)[0].input_shape == (19, 19)  # 8/7 of a view
    assert load_samples(config.replace(pixels=24, validation=2))[1].input_shape == (24, 24)
    chosen = {"data": folder, "validation": 2, "batch_size": 8}
    assert configuration(chosen, None, None, None, None).validation == 2
    write_tars(tmp_path / "photos", 4, split="val")
    assert configuration({"data": folder, "batch_size": 8}, None, None, None, None).validation == 0
