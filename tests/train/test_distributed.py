"""A process group is left when the program ends, however it ends."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from care.train import distributed

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
destroy = dist.destroy_process_group
dist.destroy_process_group = lambda: (print("left"), destroy())
processes = distributed.start("cpu")
print(processes.rank, processes.world_size)
{ending}
"""


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise RuntimeError", 1), ("destroy()", 0)])
def test_the_process_group_is_left_at_the_end(ending, code):
    """Normally, stopped, with an error, or by the program itself before."""
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2"}
    program = [sys.executable, "-c", PROGRAM.format(ending=ending)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines() == ["0 2", *(["left"] if ending != "destroy()" else [])]
