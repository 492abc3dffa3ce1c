"""The provenance of a result: versions, commit, hardware and date."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import care


def provenance(device: str) -> dict[str, Any]:
    """Versions, commit, hardware and date, to be saved beside every number."""
    return {
        "care": care.__version__,
        "commit": commit(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "timm": version("timm"),  # importing it takes seconds
        "hardware": torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def commit() -> str | None:
    """The commit of this source, with a + if it has uncommitted changes; CARE_COMMIT gives it without a repository.

    None if care is installed within the repository of another project.
    """
    if given := os.environ.get("CARE_COMMIT"):
        return given
    here = Path(care.__file__).parent
    try:
        _, found, changed = (
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (
                ["ls-files", "--error-unmatch", "__init__.py"],
                ["rev-parse", "--short=10", "HEAD"],
                ["status", "--porcelain", "--", "."],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + ("+" if changed else "")


def _processor() -> str:
    return f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"
