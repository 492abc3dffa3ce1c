"""Neighbors of an image, of the image steered, and of the image augmented."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from care.report.style import GOOD, INK, LABEL, SMALL, TITLE, literal, shortened

CELL = 0.95  # inches

Picture = UInt8[Tensor, "3 h w"] | Float[Tensor, "3 h w"]


@dataclass(frozen=True)
class GalleryRow:
    """One retrieval: a title, the query `picture`, the pictures found, nearest first and with captions, and which of
    them to frame.
    """

    title: str
    picture: Picture
    caption: str
    found: UInt8[Tensor, "k 3 height width"] | Float[Tensor, "k 3 height width"]
    captions: Sequence[str]
    framed: Bool[Tensor, " k"]


def steered_gallery(ways: Sequence[GalleryRow], title: str) -> Figure:
    """A row per retrieval: the query picture, a gap, and the pictures found."""
    if not ways:
        raise ValueError("there is nothing to draw: pass at least one retrieval")
    k = max(len(way.found) for way in ways)
    size = (max(6.0, CELL * (k + 1.4)), (CELL + 0.42) * len(ways) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(literal(title), fontsize=TITLE, color="0.1", x=0.01, ha="left")
    parts = np.atleast_1d(figure.subfigures(len(ways), 1))  # type: ignore[arg-type]
    for part, way in zip(parts, ways, strict=True):
        part.suptitle(literal(way.title), fontsize=LABEL, color=INK, x=0.01, ha="left")
        axes = part.subplots(1, k + 2, width_ratios=[1, 0.25, *[1] * k])
        for ax in axes:
            ax.set_axis_off()
        _show(axes[0], way.picture, way.caption, framed=False)
        for ax, picture, caption, framed in zip(axes[2:], way.found, way.captions, way.framed.tolist(), strict=False):
            _show(ax, picture, caption, framed)
    return figure


def _show(ax: Axes, picture: Picture, caption: str, framed: bool) -> None:
    pixels = picture.detach().cpu().permute(1, 2, 0)
    ax.imshow((pixels.clamp(0, 1) if pixels.is_floating_point() else pixels).numpy(), interpolation="nearest")
    ax.set_title(literal(shortened(caption, 16)), fontsize=SMALL, color=INK, pad=2)
    ax.set_axis_on()
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set(edgecolor=GOOD if framed else "0.85", linewidth=2.2 if framed else 0.6)
