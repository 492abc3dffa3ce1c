"""A process group is left when the program ends, however it ends; a launcher that was killed is missed."""

import os
import subprocess
import sys

import pytest

ENDINGS = {"": 0, "raise RuntimeError": 1, "destroy()": 0}
# One program for both tests: it takes longer to import what they need than to do it.
PROGRAM = """
import os, sys, time
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from care.train import distributed

for ending in sys.argv[1:]:
    if os.fork() == 0:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        destroy = dist.destroy_process_group
        dist.destroy_process_group = lambda: (print("left"), destroy())
        processes = distributed.start("cpu")
        print(processes.rank, processes.world_size)
        exec(ending)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)

os.environ["TORCHELASTIC_RUN_ID"] = "none"
if os.fork() == 0:
    parent = distributed.PARENT = os.getppid()
    before = distributed.launcher_is_gone()
    while os.getppid() == parent:
        time.sleep(0.01)
    found = distributed.launcher_is_gone()
    del os.environ["TORCHELASTIC_RUN_ID"]
    print(before, found, distributed.launcher_is_gone(), flush=True)
else:
    time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def printed():
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2"}
    program = [sys.executable, "-c", PROGRAM, *ENDINGS]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_process_group_is_left_at_the_end(printed):
    """Of a program that ends as it should, by an error, or after it has left the group by itself; once."""
    left = {ending: [] if ending == "destroy()" else ["left"] for ending in ENDINGS}
    assert printed[:-1] == [line for ending, code in ENDINGS.items() for line in ("0 2", *left[ending], str(code))]


def test_only_a_launcher_is_missed(printed):
    """The shell that started a run alone may end, as it does after nohup."""
    assert printed[-1].split() == ["False", "True", "False"]
