"""What a run of the GPU tests found, where and when, as JSON and as a row of the table in docs/reliability.md."""

import datetime
import json
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

UNKNOWN = "unknown"


def make_record(counts, seconds):
    """`counts` are those of outcomes; tests that broke before they began have failed, too."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "driver": _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0],
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torchvision", "timm")},
        "passed": counts["passed"],
        "failed": counts["failed"] + counts["error"],
        "skipped": counts["skipped"],
        "seconds": round(seconds),
    }


def row(record):
    """The record as a row of Markdown."""
    where = f"{record['gpu']}, driver {record['driver']}"
    software = f"Python {record['python']}, torch {record['torch']}, CUDA {record['cuda']}, timm {record['timm']}"
    counts = (str(record[name]) for name in ("passed", "failed", "skipped"))
    return f"| {' | '.join([record['date'], record['commit'], where, software, *counts, str(record['seconds'])])} |"


def write_record(record, file):
    """Write the record; returns its row."""
    Path(file).write_text(json.dumps({**record, "row": row(record)}, indent=1) + "\n")
    return row(record)


def _commit():
    """The commit of the working tree, with a + if there are changes on top of it."""
    commit = _answer("git", "rev-parse", "--short", "HEAD")
    changed = commit != UNKNOWN and _answer("git", "status", "--porcelain", "--untracked-files=no") not in ("", UNKNOWN)
    return commit + "+" * changed


def _answer(*command):
    """What a program prints, if there is one and it does not fail."""
    if shutil.which(command[0]) is None:
        return UNKNOWN
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else UNKNOWN
