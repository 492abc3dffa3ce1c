"""The neighbors that models retrieve for color-jittered queries."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from care.report.style import GOOD, INK, LABEL, dark, literal, model_colors, shortened

ACROSS = 12  # neighbors side by side; models that do not fit go below
CELL = 0.7  # inches
GAP = 0.3  # cells between blocks
PITCH = 1.06  # cells from row to row
KEY = 0.25  # inches per line below all pictures
FRAMES = {True: (GOOD, 1.8), False: ("0.75", 0.9)}  # whether the class is the query's → color, width of the line


@dataclass(frozen=True)
class Block:
    """Pictures under one title: a row per query, and perhaps a frame for each."""

    title: str
    color: str
    pictures: UInt8[Tensor, "q k 3 h w"] | Float[Tensor, "q k 3 h w"]
    right: Bool[Tensor, "q k"] | None = None

    @property
    def width(self) -> int:
        """The width in pictures."""
        return self.pictures.shape[1]


def neighbors_figure(
    queries: UInt8[Tensor, "q 3 h w"],
    jittered: UInt8[Tensor, "q 3 h w"] | Float[Tensor, "q 3 h w"],
    results: Mapping[str, UInt8[Tensor, "q k 3 height width"]],
    right: Mapping[str, Bool[Tensor, "q k"]] | None = None,
) -> Figure:
    """A row per query: the original, the jittered picture that was the query, and the neighbors each model found.

    `right` frames the neighbors: green if true (a neighbor of the query's class), else gray, as a key below explains.
    Models that do not fit side by side continue below.
    """
    if not results or len(queries) == 0:
        raise ValueError("there is nothing to draw: pass at least one query and the neighbors one model found for it")
    start = [Block("original", INK, queries[:, None]), Block("query", INK, jittered[:, None])]
    found = [
        Block(name, dark(color), results[name], (right or {}).get(name))
        for name, color in model_colors(results).items()
    ]
    bands = [start + band for band in _bands(found)]
    width = max(sum(block.width + GAP for block in band) for band in bands) - GAP
    columns = 2 if CELL * width > 3.5 else 1  # of the key
    height = len(bands) * (CELL * PITCH * len(queries) + 0.35) + KEY * (3 - columns) * bool(right)
    figure = Figure(figsize=(CELL * width, height), layout="constrained")
    for ax, band in zip(figure.subplots(len(bands), 1, squeeze=False)[:, 0], bands, strict=True):
        _draw_band(ax, band)
        ax.set(xlim=(0, width), ylim=(PITCH * len(queries), 0), aspect="equal", anchor="W")
        ax.set_axis_off()
    if right:
        _explain_frames(figure, columns)
    return figure


def _bands(blocks: list[Block]) -> list[list[Block]]:
    """The blocks in lines of at most ACROSS pictures, at least one block in each."""
    bands: list[list[Block]] = [[]]
    for block in blocks:
        if bands[-1] and sum(b.width for b in bands[-1]) + block.width > ACROSS:
            bands.append([])
        bands[-1].append(block)
    return bands


def _draw_band(ax: Axes, band: list[Block]) -> None:
    left = 0.0
    for block in band:
        title = literal(shortened(block.title, max(9, 9 * block.width)))
        ax.annotate(
            title, (left + block.width / 2, 0), (0, 4), textcoords="offset points", ha="center", fontsize=LABEL,
            color=block.color,
        )  # fmt: skip
        for i in range(len(block.pictures)):
            for j in range(block.width):
                _draw_picture(ax, block, i, j, left + j, PITCH * i)
        left += block.width + GAP


def _draw_picture(ax: Axes, block: Block, i: int, j: int, x: float, y: float) -> None:
    """Draw picture j of query i in the unit cell whose upper left corner is (x, y), with its own aspect ratio."""
    pixels = _rgb(block.pictures[i, j])
    height, width = (0.47 * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
    box = (x + 0.5 - width, x + 0.5 + width, y + 0.5 + height, y + 0.5 - height)
    ax.imshow(pixels, extent=box)
    if block.right is not None:
        ax.add_patch(_frame((box[0], box[3]), 2 * width, 2 * height, bool(block.right[i, j])))


def _frame(corner: tuple[float, float], width: float, height: float, right: bool) -> Rectangle:
    color, line = FRAMES[right]
    return Rectangle(corner, width, height, fill=False, edgecolor=color, linewidth=line)


def _explain_frames(figure: Figure, columns: int) -> None:
    """Explain the frames once, below the pictures."""
    squares = [_frame((0.0, 0.0), 1.0, 1.0, right) for right in FRAMES]
    words = ["same class as the query", "another class"]
    figure.legend(
        squares, words, loc="outside lower left", ncols=columns, frameon=False, fontsize=LABEL, labelcolor=INK,
        handlelength=1, handleheight=1, borderpad=0,
    )  # fmt: skip


def _rgb(picture: UInt8[Tensor, "3 h w"] | Float[Tensor, "3 h w"]) -> np.ndarray:
    """Rows, columns, channels: bytes as they are, numbers cut to [0, 1]."""
    pixels = picture.detach().cpu().permute(1, 2, 0)
    return (pixels.clamp(0, 1) if pixels.is_floating_point() else pixels).numpy()
