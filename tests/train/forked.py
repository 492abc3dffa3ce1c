"""Several processes that share one import: far cheaper than as many interpreters."""

import os
import sys
import tempfile
import traceback

# timm, and what torch.testing needs: otherwise each child imports them for itself.
import timm  # noqa: F401
import torch.distributed as dist
import torch.distributed.tensor  # noqa: F401


def together(number, work, *arguments):
    """Run `work(*arguments)` in so many processes of one gloo group; to be called before anything is differentiated."""
    with tempfile.TemporaryDirectory() as folder:
        children = [_fork(rank, number, folder, work, arguments) for rank in range(number)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == number * [0], codes


def _fork(rank, number, folder, work, arguments):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(number)}
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=number)
        work(*arguments)
        dist.barrier()
        dist.destroy_process_group()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
