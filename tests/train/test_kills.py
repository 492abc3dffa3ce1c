"""Saves that fail or die on the way: at every call, at random moments, on a full disk, in a read-only folder."""

import errno
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from saved import at, holds, names
from small import mounted

from care.atomic_files import write_atomically
from care.train.checkpoint import load_latest, save, save_weights

# The children that are killed are forks of the test process, which has threads; they only write small files.
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def calls_of_save(monkeypatch, act):
    """Have `act(number, name)` run before and after every call by which a save changes the disk."""
    count = iter(range(10_000))

    def watched(call, name):
        def run(*args, **kwargs):
            act(next(count), name)
            result = call(*args, **kwargs)
            act(next(count), name)
            return result

        return run

    for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, watched(getattr(os, name), name))
    monkeypatch.setattr(Path, "write_bytes", watched(Path.write_bytes, "write"))


def survives(folder, step):
    """After a save of `step` that may not have come to its end: what is there is whole, the step before or this one."""
    for path in folder.glob("step-*"):
        assert names(path) == ["state.json", "tensors.safetensors"], "half removed under its name"
    checkpoint = load_latest(folder)
    assert checkpoint.step in (step - 1, step)
    assert holds(checkpoint, checkpoint.step)
    assert checkpoint.skipped == ()
    return checkpoint.step


@pytest.mark.parametrize("keep", [1, 2])
def test_a_failure_at_any_call_leaves_the_previous_checkpoint_and_nothing_else(keep, tmp_path, monkeypatch):
    """The disk is full at the first call, at the second, and so on until there is no such call."""
    errors = []
    for failing in range(1000):
        folder, seen = tmp_path / str(failing), []
        for step in (1, 2):
            save(folder, step, *at(step), keep)

        def act(number, _, failing=failing, seen=seen):
            seen.append(number)
            if number == failing:
                raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            calls_of_save(patch, act)
            try:
                save(folder, 3, *at(3), keep)
            except OSError as error:
                errors.append(error)
        step = survives(folder, 3)
        assert not list(folder.glob(".incomplete-*")) or step == 3  # an old one, half removed
        if len(seen) <= failing:
            break
    assert len(errors) >= 10
    assert {error.errno for error in errors} == {errno.ENOSPC}
    assert names(folder) == ["step-00000002", "step-00000003"][-keep:]


def in_fork(body):
    """Run `body` in a child process; the process id."""
    child = os.fork()
    if child == 0:
        try:
            body()
        finally:
            os._exit(0)
    return child


@forks
@pytest.mark.parametrize("again", [False, True], ids=["next", "again"])
def test_a_kill_at_any_call_leaves_a_whole_checkpoint(again, tmp_path):
    """SIGKILL before each call that touches the disk, and at the end; also where a step is saved again, keeping 1."""
    for fatal in range(0, 1000, 2):  # what is there after one call is there before the next
        folder = tmp_path / str(fatal)
        save(folder, 2, *at(2))

        def body(folder=folder, fatal=fatal):
            calls_of_save(
                pytest.MonkeyPatch(), lambda number, _: number == fatal and os.kill(os.getpid(), signal.SIGKILL)
            )
            save(folder, 2 if again else 3, *at(2 if again else 3), keep=1)

        _, status = os.waitpid(in_fork(body), 0)
        step = survives(folder, 3)
        save(folder, step + 1, *at(step + 1), keep=1)
        assert names(folder) == [f"step-{step + 1:08d}"]
        if not os.WIFSIGNALED(status):
            break
    assert fatal >= 20, "fewer than ten calls"


@forks
def test_kills_at_random_moments_leave_whole_checkpoints(tmp_path):
    """12 processes in a row, or more until 12 steps are saved: each resumes and saves on until it is killed."""
    delays = random.Random(0)
    resumed_at, halves = [0], 0
    save(tmp_path, 0, *at(0))

    def body():
        step = load_latest(tmp_path).step
        while True:
            step += 1
            save(tmp_path, step, *at(step))

    kills, patience = 0, 1.0
    while kills < 12 or resumed_at[-1] < 12:
        kills += 1
        assert kills < 500, "next to nothing is saved"
        child = in_fork(body)
        time.sleep(patience * (0.03 + 0.05 * delays.random()))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        halves += bool(list(tmp_path.glob(".incomplete-*")))
        checkpoint = load_latest(tmp_path)
        assert holds(checkpoint, checkpoint.step)
        assert checkpoint.skipped == ()
        assert checkpoint.step >= resumed_at[-1]
        patience = 1.0 if checkpoint.step > resumed_at[-1] else 2 * patience  # on a busy machine nothing may be saved
        resumed_at.append(checkpoint.step)
    print(f"{resumed_at[-1]} saves, {halves} of {kills} kills within one")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    with mounted(tmp_path / "disk", megabytes=1):
        yield tmp_path / "disk"


def test_a_full_disk(small_disk):
    folder, size = small_disk / "checkpoints", 100_000
    for step in (1, 2):
        save(folder, step, {"w": torch.full((size,), float(step))}, {})  # 0.4 MB each: a third does not fit
    with pytest.raises(OSError, match="step-00000003 could not be written: No space left") as caught:
        save(folder, 3, {"w": torch.full((size,), 3.0)}, {})
    assert caught.value.errno == errno.ENOSPC
    assert names(folder) == ["step-00000001", "step-00000002"]
    assert load_latest(folder).tensors["w"].eq(2).all()
    with pytest.raises(OSError, match=r"weights\.safetensors could not be written: No space left"):
        save_weights(small_disk / "weights.safetensors", {"w": torch.ones(size)}, {})
    assert names(small_disk) == ["checkpoints"]


def test_a_read_only_folder(tmp_path):
    save(tmp_path, 1, *at(1))
    tmp_path.chmod(0o555)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user writes where nobody may")
        with pytest.raises(PermissionError, match="could not be written"):
            save(tmp_path, 2, *at(2))
        with pytest.raises(PermissionError, match="could not be written"):
            write_atomically(tmp_path / "log", b"new")
        assert names(tmp_path) == ["step-00000001"]
        assert holds(load_latest(tmp_path), 1)
    finally:
        tmp_path.chmod(0o755)


def test_a_read_only_disk(small_disk):
    save(small_disk, 1, {"w": torch.ones(3)}, {})
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for attempt in (lambda: save(small_disk, 2, *at(2)), lambda: write_atomically(small_disk / "log", b"new")):
        with pytest.raises(OSError, match="could not be written: Read-only file system"):
            attempt()
    assert names(small_disk) == ["step-00000001"]
    assert load_latest(small_disk).step == 1


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "checkpoints").write_text("mine")
    for attempt in (lambda f: save(f, 1, *at(1)), load_latest):
        with pytest.raises(OSError, match="checkpoints"):
            attempt(tmp_path / "checkpoints")
    assert (tmp_path / "checkpoints").read_text() == "mine"


def test_one_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "log"
    for data in (b"", b"first", b"second" * 10_000):
        write_atomically(path, data)
        assert path.read_bytes() == data
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
            with pytest.raises(OSError, match="log could not be written: Input/output error"):
                write_atomically(path, b"third")
        assert path.read_bytes() == data
        assert names(tmp_path) == ["log"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 1, *at(1))
    assert names(tmp_path) == []
