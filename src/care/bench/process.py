"""`python -m care.bench.process`: the measurements of `care bench scaling` and `start` that need their own process."""

import json
import sys
import time
from functools import partial

from care.bench.clock import synchronize
from care.bench.messages import Say
from care.bench.scaling_processes import scaling
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.training import build_step, building
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark


def start(settings: Settings, started: float, say: Say) -> dict[str, float]:
    """Seconds from `started`, when this process was started, to the end of the first step of CARE."""
    imported = time.time()
    say(f"imported after {imported - started:.1f} s, {building(settings)}")
    processes = distributed.start(settings.device)
    step = build_step(settings, processes, **CARE_SETTINGS)
    images = settings.random_images(settings.batch_size).to(processes.device)
    synchronize(processes.device)
    built = time.time()
    step([images], 0)
    synchronize(processes.device)
    done = time.time()
    return {
        "seconds": done - started,
        "import_seconds": imported - started,
        "build_seconds": built - imported,
        "step_seconds": done - built,
    }


def main(task: str, encoded: str, argument: str) -> None:
    """Print the progress of `task`, and its result as JSON on the last line."""
    values = json.loads(encoded)
    settings = Settings(**{**values, "processes": tuple(values["processes"])})
    say = partial(print, flush=True)
    with cudnn_benchmark():
        found = scaling(settings, argument, say) if task == "scaling" else start(settings, float(argument), say)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
