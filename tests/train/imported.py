"""A process that has imported what takes longest, and becomes every program that a test asks for, one after the other.

It forks. The fork goes on as an interpreter that was started for the program: in a session of its own, with arguments,
environment and files of its own, to the end of the interpreter. A fork of the test process itself would have the locks
of threads that it does not have.
"""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

HERE = Path(__file__).parent


class Imported:
    """As a context; what it still runs at its end is killed."""

    def __enter__(self):
        path = os.pathsep.join([str(HERE.parent), *sys.path])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self.process = subprocess.Popen([sys.executable, __file__], env=environment, start_new_session=True, **streams)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def start(self, program, *arguments, folder, environment=None):
        """Begin a program, which prints to `folder/output` and `folder/errors`; the one before it has ended."""
        order = {"program": program, "arguments": list(map(str, arguments)), "environment": environment or {}}
        self.process.stdin.write(json.dumps(order | {"folder": str(folder)}).encode() + b"\n")
        return Program(self.process.stdout)


class Program:
    """What `subprocess.Popen` is for a process of one's own. As a context, it and its children do not outlive it."""

    def __init__(self, told):
        self.told, self.returncode = told, None
        self.pid = int(told.readline())

    def wait(self):
        if self.returncode is None:
            self.returncode = int(self.told.readline())
        return self.returncode

    def poll(self):
        return self.wait() if self.returncode is not None or select.select([self.told], [], [], 0)[0] else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):
            os.killpg(self.pid, SIGKILL)
        self.wait()


def next_program():
    """In a fork for each, what it is to become; None when no more will come."""
    for line in sys.stdin:
        if not (child := os.fork()):
            return json.loads(line)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def become(program, arguments, environment, folder):
    os.setsid()
    for stream, file in enumerate((os.devnull, Path(folder) / "output", Path(folder) / "errors")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), stream)
    os.environ |= environment
    sys.argv = ["program", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    import atexit
    import gc

    import timm  # noqa: F401
    import torch._dynamo
    import torch.distributed.tensor  # noqa: F401
    from PIL import Image

    import care.cli.train
    import care.train.loop  # noqa: F401

    Image.init()
    gc.freeze()  # the collector of a fork need not go through it
    atexit.register(gc.unfreeze)  # or extensions complain at the end of what was never freed
    if order := next_program():
        become(**order)
