"""Two real processes against one, and against two that are stopped, spoiled, shut out, or killed and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from small import small_config, small_data
from watched import StopAfter

from care.atomic_files import Lock
from care.randomness import epoch_order
from care.train import Interrupted, Run, prepare, train
from data.on_disk import write_tars
from faults.driver import same_run

# Decoding processes are forked, and the test process has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
EPOCHS = 2
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}


def test_the_averaged_gradient_is_that_of_one_process(imported, tmp_path):
    """For every method, in float64: parameters to 1e-10, and BatchNorm's running statistics too; of 2 and of 4."""
    with imported.start(run_of("several_processes.py"), folder=tmp_path) as program:
        code = program.wait()
    output = (tmp_path / "output").read_text()
    assert code == 0, output + (tmp_path / "errors").read_text()
    assert "2 processes: vicreg" in output
    assert "4 processes: split queue" in output


def run_of(file):
    return f"import runpy; runpy.run_path({str(HERE / file)!r}, run_name='__main__')"


@pytest.fixture(scope="module")
def folder(imported, tmp_path_factory):
    """Where `one_of_two.py` has run as both of two processes, and what it reports: `report-0.json`, `report-1.json`.

    At the end each is a `care train` that gets signals: the second SIGTERM, then both whatever comes, until they end.
    """
    folder = tmp_path_factory.mktemp("two")
    settings = {"equivariance": "care", "care_weight": 1.0, "optimizer": "sgd", "learning_rate": 1e-5}
    config = small_config(small_data(folder / "data"), epochs=EPOCHS, evaluate_every=EPOCHS, **settings)
    (folder / "config.toml").write_text(config.to_toml())
    photos = config.replace(data=str(write_tars(write_tars(folder / "photos", 48), 20, split="test")), accumulate=2)
    (folder / "photos.toml").write_text(photos.to_toml())
    small_data(folder / "data1", pixels=14)
    for chosen, name in ((config, "one"), (photos, "photos on one")):
        train(prepare(chosen, folder / name))
        with pytest.raises(Interrupted):
            train(prepare(chosen, folder / f"{name} to two"), StopAfter(2))
    (folder / "held").mkdir()
    lock = Lock(folder / "held" / ".lock")
    with start_both(imported, folder) as parent:
        try:
            signal_both(parent, folder)
        finally:
            lock.release()
    return folder


def start_both(imported, folder):
    """The parent of the two processes, which ends when they do; none of them outlives the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    return imported.start(run_of("one_of_two.py"), folder, folder=folder, environment=environment)


def signal_both(parent, folder):
    """One is asked to stop when it has saved, and then both again and again, until they end."""
    deadline = time.monotonic() + 300
    while not list((folder / "signals" / "checkpoints").glob("step-*")) and time.monotonic() < deadline:
        assert parent.poll() is None
        time.sleep(0.02)
    processes = json.loads((folder / "processes.json").read_text())
    os.kill(processes[1], signal.SIGTERM)
    while parent.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        for process, number in zip(processes, (signal.SIGINT, signal.SIGTERM), strict=True):
            with suppress(ProcessLookupError):  # it has ended
                os.kill(process, number)


@pytest.fixture(scope="module")
def reports(folder):
    return [json.loads((folder / f"report-{rank}.json").read_text()) for rank in (0, 1)]


def test_a_run_on_two_processes_is_the_run_on_one(folder, reports):
    """The same images, augmentations, weights and log, up to the order of additions."""
    assert [report["whole"] for report in reports] == [None, None]
    close(folder / "one", folder / "whole")


def close(one, two):
    """Of every epoch, in fp32: the loss to 1e-5, and what it is made of.

    With a larger learning rate a network as small as this one makes much of the order of additions: in a few steps
    fp32 is as far from float64. Ten times this one changes the loss of a third epoch by 8e-3.
    """
    ones, twos = Run(one).log(), Run(two).log()
    assert len(ones) == len(twos) == EPOCHS
    for first, second in zip(ones, twos, strict=True):
        for name, within in {"loss": 1e-5, "info_nce": 1e-5, "equivariance": 1e-4, "gradient_norm": 1e-3}.items():
            assert second[name] == pytest.approx(first[name], rel=within), (name, first["epoch"])
    for name in ("displacement", "positive_cosine"):
        assert twos[-1][name] == pytest.approx(ones[-1][name], rel=1e-3), name


def test_signals_to_either_process_stop_both_and_lose_nothing(folder, reports):
    """Within an epoch and at its end; resumed, the run on two processes ends in the bits of one never stopped."""
    assert [report["stopped"] for report in reports] == 2 * [["Interrupted: ", "Interrupted: ", None]]
    assert same_run(folder / "whole", folder / "stopped")


def test_a_second_signal_changes_neither_the_exit_code_nor_the_checkpoint(folder):
    assert json.loads((folder / "codes.json").read_text()) == [75, 75]
    assert Run(folder / "signals").config().epochs == 1000
    told = [(folder / f"errors-{rank}").read_text() for rank in (0, 1)]
    assert all("goes on" in text and "Traceback" not in text for text in told), told
    prepare(Run(folder / "signals").config(), folder / "signals", resume=True)  # whole, and nobody holds it


def test_two_processes_go_on_as_one_and_one_as_two(folder, reports):
    """In the same global order, to the same log up to the order of additions."""
    config = Run(folder / "one").config()
    train(prepare(config, folder / "two to one", resume=True))
    close(folder / "one", folder / "two to one")
    close(folder / "one", folder / "one to two")
    halves = zip(*(report["rows"] for report in reports), strict=True)
    batches = [batch.tolist() for epoch in range(EPOCHS) for batch in epoch_order(48, config.seed, epoch).split(16)]
    assert [first + second for first, second in halves] == batches[2:]


def test_one_process_goes_on_as_two_with_pictures_in_shards_and_batches_in_parts(folder, reports):
    """Decoded while training, within an epoch: three steps, of two micro-batches each."""
    assert [report["photos"] for report in reports] == [None, None]
    close(folder / "photos on one", folder / "photos on one to two")


def test_a_gradient_that_is_not_finite_on_one_process_stops_both_before_anything_changes(reports):
    assert [report["gradient"] for report in reports] == 2 * [
        {"end": "FloatingPointError: gradient_norm is not finite at step 2", "same": True}
    ]


def test_what_the_first_process_cannot_do_stops_both(reports):
    """Neither waits for the other: a checkpoint that cannot be written, a folder that another run is writing to."""
    assert "checkpoints" in reports[0]["blocked"]
    assert "another run is writing to" in reports[0]["held"]
    for end in ("blocked", "held"):
        assert reports[1][end] == "OSError: rank 0 had to stop: its error says why"


def test_processes_that_find_different_pictures_do_not_begin(folder, reports):
    """As on two machines of which one has an older copy of the data."""
    for report in reports:
        assert "the processes find different samples in" in report["other"]
    assert not (folder / "other").exists()


def worker(launcher, rank):
    """The process id of a rank under torchrun."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise LookupError(f"torchrun has no rank {rank}")


@pytest.mark.faults
def test_torchrun_starts_a_killed_process_again_and_the_result_is_the_same(folder):
    """SIGKILL to the process that writes, as soon as it has saved: `--resume` in the command is all it takes."""
    command = [*TORCHRUN, "--max-restarts=1", "-m", "care", "train", "--config", "config.toml"]
    command += ["--out", "killed", "--resume", "--save-minutes", "0"]
    with (folder / "output").open("wb") as output:
        launcher = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 300
    while not list((folder / "killed").glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(worker(launcher.pid, rank=0), signal.SIGKILL)
    assert not (folder / "killed" / "model.safetensors").exists(), "it had finished"
    assert launcher.wait(timeout=300) == 0, (folder / "output").read_text()
    assert "resumed after step" in (folder / "output").read_text()
    assert same_run(folder / "whole", folder / "killed")
    assert (folder / "killed" / "curves.png").exists()
    assert len(json.loads((folder / "killed" / "speed.jsonl").read_text().splitlines()[0])) == 3


def is_running(process):
    try:
        return "zombie" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.faults
def test_processes_whose_torchrun_was_killed_save_and_end(folder):
    """SIGKILL to torchrun alone: nobody asks its processes to end. The run can be resumed from where they were."""
    command = [*TORCHRUN, "-m", "care", "train", "--config", "config.toml", "--epochs", "1000", "--out", "left alone"]
    with (folder / "alone").open("wb") as output:
        launcher = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 300
    while not list((folder / "left alone").glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    processes = [worker(launcher.pid, rank) for rank in (0, 1)]
    launcher.kill()
    launcher.wait()
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_running, processes))
    assert "goes on" in (folder / "alone").read_text()
    prepare(Run(folder / "left alone").config(), folder / "left alone", resume=True)  # whole, and nobody holds it
