"""Shared by all tests: annotated shapes are checked on every call, and random numbers come from a named seed."""

import contextlib
import os
import warnings

import jaxtyping
import pytest
import torch

# Must run before anything of care is imported. torch.compile cannot look through the checks: tests of compiled code
# start a process of their own, which this file does not reach.
jaxtyping.install_import_hook("care", "beartype.beartype")

# Two threads that share a core with another process wait for each other most of the time; the tests are small, and so
# are the processes that they start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def no_waiting():
    """A context in which it is an error if the host waits for the GPU."""

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
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# Files that take a minute or more. Whole files go to a process: begun last, one of them would keep one core waiting.
LONG = (
    "test_processes.py", "test_evaluate_commands.py", "test_loop.py", "test_trials.py", "test_contract.py",
    "test_demo.py", "test_bench_processes.py", "test_steer_command.py", "test_security.py", "test_fused.py",
    "test_per_view.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)
