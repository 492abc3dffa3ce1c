"""Orbits of embeddings while the input is rotated."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor


def orbit_figure(orbits: Mapping[str, Float[Tensor, "inputs angles d"]]) -> Figure:
    """One panel per model: the embeddings of a few inputs while each is rotated by 360°.

    Each panel shows the plane in which that model's embeddings vary most, at its own scale. If rotating the input
    rotates the embedding, every orbit is a circle, traversed at the same rate.
    """
    figure = Figure(figsize=(4 * len(orbits), 4.3), layout="constrained")
    axes = figure.subplots(1, len(orbits), squeeze=False)[0]
    for ax, (name, z) in zip(axes, orbits.items(), strict=True):
        plane, angle = _in_plane(z), torch.linspace(0, 360, z.shape[1])
        reach = 1.05 * plane.abs().max().item()
        for curve in plane:
            ax.plot(*curve.mT, color="0.8", linewidth=0.8, zorder=1)
            dots = ax.scatter(*curve.mT, c=angle, cmap="twilight", s=9, zorder=2)
        ax.set(title=name, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    bar = figure.colorbar(dots, ax=list(axes), label="rotation of the input", shrink=0.8)
    bar.set_ticks([0, 90, 180, 270, 360], labels=["0°", "90°", "180°", "270°", "360°"])
    return figure


def _in_plane(z: Float[Tensor, "inputs angles d"]) -> Float[Tensor, "inputs angles 2"]:
    """The coordinates in the plane in which the points, centered orbit by orbit, vary most."""
    centered = (z - z.mean(dim=1, keepdim=True)).flatten(0, 1)
    plane = torch.linalg.svd(centered, full_matrices=False).Vh[:2]
    return (z - z.mean(dim=(0, 1))) @ plane.mT
