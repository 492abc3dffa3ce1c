"""Shared by all tests: annotated shapes are checked, and random numbers come from a named seed."""

import atexit
import contextlib
import gc
import os
import sys
import time
import warnings
from pathlib import Path

# Where no bytecode may be written beside the source, it is kept apart: or every process that a test starts compiles the
# thousands of files of torch and timm again, which takes longer than most tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest

# Two threads that share a core with another process wait for each other most of the time; the tests are small, and so
# are the processes that they start.
os.environ["OMP_NUM_THREADS"] = "1"

# cuBLAS reads it once, before its first product: a deterministic training may come after other tests.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture(scope="session", autouse=True)
def narrow_network():
    """Hidden layers of 128 in place of 1,024 decode what is planted here, in a tenth of the time."""
    from care.evaluate.decoding import network

    network.WIDTH = 128


@pytest.fixture(scope="session", autouse=True)
def few_penalties():
    """One per decade in place of four: a logistic regression in a third of the time."""
    from care.evaluate.features import tuned_logistic

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuned_logistic, "PENALTIES", tuned_logistic.PENALTIES[::4])
        yield


@pytest.fixture(scope="session", autouse=True)
def few_generated_samples():
    """2,000 in place of 20,000 to train on, 500 in place of 4,000 to test: to make them takes seconds, each time."""
    from care.data import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "GENERATED_SPLITS", {"train": (2_000, 1), "test": (500, 2)})
        yield


@pytest.fixture
def all_generated_samples(monkeypatch):
    """As many as other processes have."""
    monkeypatch.setattr("care.data.registry.GENERATED_SPLITS", {"train": (20_000, 1), "test": (4_000, 2)})


@pytest.fixture(scope="module")
def coarse_pictures():
    """For tests of commands. How each figure looks is tested in tests/report."""
    from coarse_drawing import coarse_drawing

    with coarse_drawing():
        yield


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(0)


@pytest.fixture
def no_waiting():
    """A context in which it is an error if the host waits for the GPU."""
    import torch

    @contextlib.contextmanager
    def context():
        with warnings.catch_warnings(action="ignore"):  # "a prototype feature"
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return context


@pytest.fixture
def unchecked():
    """Calls as a user makes them, without the shape checks: for tests of the errors that users see."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# Files that take longest, in this order. Whole files go to a process: begun last, one of them would keep one core
# waiting.
LONG = (
    "test_processes.py", "test_demo.py", "test_docs.py", "test_presenting.py", "test_contract.py", "test_trials.py",
    "test_train_command.py", "test_fused.py", "test_evaluate_commands.py", "test_bench.py", "test_compiled.py",
    "test_fitting.py", "test_loop.py", "test_streamed_training.py", "test_initial.py", "test_export.py",
    "test_bench_processes.py", "test_epoch_end.py", "test_security.py", "test_faults.py", "test_steer_command.py",
    "test_streamed.py", "test_mistakes.py", "test_canonical.py", "test_hue_demo.py",
)  # fmt: skip
STARTED = pytest.StashKey[float]()


def pytest_addoption(parser):
    group = parser.getgroup("GPU tests")
    group.addoption("--on-cpu", action="store_true", help="run the commands of tests/gpu on a CPU, to try the tests")
    group.addoption("--gpu-record", metavar="FILE", help="write date, commit, machine, versions and counts as JSON")


def pytest_configure(config):
    config.stash[STARTED] = time.monotonic()
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        _prepare_to_test()  # a process that only hands out tests need not wait for torch


def _prepare_to_test():
    import torch

    from shape_checks import check_shapes

    # Must run before anything of care is imported. torch.compile cannot look through the checks: tests of compiled code
    # start a process of their own, which this file does not reach.
    check_shapes("care")
    torch.set_num_threads(1)
    gc.disable()  # until all is imported: of that there is no garbage


def pytest_ignore_collect(collection_path, config):
    """With `-m gpu`, no other file is imported: where there is a GPU, what others are compared with may be missing."""
    if config.option.markexpr != "gpu":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.gpu" in file.read_text(errors="replace") for file in files) else True


def pytest_collection_modifyitems(items, config):
    import torch

    place = {name: index for index, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONG)))
    if torch.cuda.is_available():
        return
    for item in items:
        tried = config.option.on_cpu and "gpu" in item.fixturenames
        if item.get_closest_marker("gpu") and not tried:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def pytest_collection_finish():
    """What is imported by now stays: the collector need not go through 700,000 objects again in every few tests."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # or extensions complain at the end of what was never freed
    gc.set_threshold(7000)  # in place of 700: tests leave little behind
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    from shape_checks import begin_test

    begin_test()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    if config.option.gpu_record:
        from gpu.record import make_record, write_record

        counts = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
        record = make_record(counts, time.monotonic() - config.stash[STARTED])
        terminalreporter.write_line(write_record(record, config.option.gpu_record))
