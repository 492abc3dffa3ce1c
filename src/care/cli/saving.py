"""Figures go to disk as PNG, to look at, and as SVG, to print."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from care.evaluate.families import Watch


def save_figures(figures: Mapping[str, Figure], folder: Path, watch: Watch) -> None:
    """Write every figure twice into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (name, figure) in enumerate(figures.items(), start=1):
        figure.savefig(folder / f"{name}.png", dpi=120)
        figure.savefig(folder / f"{name}.svg")
        watch("figures", i, len(figures))
