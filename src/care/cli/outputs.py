"""Output paths, which are checked before the work begins, and figures."""

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from care.atomic_files import make_folder
from care.progress import ProgressCallback

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def claim_folder(folder: Path) -> None:
    """Make the folder; OSError, before hours of work, if it is not writable."""
    make_folder(folder)
    with tempfile.TemporaryFile(dir=folder):
        pass


def claim_file(file: Path) -> None:
    """OSError if `file` cannot be written later."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not file.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    with tempfile.TemporaryFile(dir=file.absolute().parent):
        pass


def save_figures(figures: Mapping[str, "Figure"], folder: Path, progress: ProgressCallback) -> None:
    """Write every figure into `folder` as PNG and as SVG."""
    from care.report.drawing import draw  # matplotlib takes a while to load

    folder.mkdir(parents=True, exist_ok=True)
    for i, (name, figure) in enumerate(figures.items(), start=1):
        draw(figure, folder / f"{name}.png", "png")
        draw(figure, folder / f"{name}.svg", "svg")
        progress("figures", i, len(figures))
