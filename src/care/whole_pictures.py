"""Whole pictures of any shape in batches of one shape: each is squeezed into a square, and stored with its aspect W/H.

A random crop needs the borders of a picture, and its true proportions. A box of aspect q (width / height) in the
picture has aspect q · H/W in the square, and the same share of the area, so W/H is all that a crop needs.

A batch is uint8 [n, 3 side² + 2]: each row has the bytes of a square, and two bytes of log2(W/H). As a single tensor it
can be copied to a device, split between processes and captured in a CUDA graph like any other.
"""

import math

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

ASPECT_BYTES = 2
STEPS_PER_OCTAVE = 4096  # log2(W/H) is stored from −8 on: to 0.01 %, for aspects from 1/256 to 256
OCTAVES = 8


def row_bytes(side: int) -> int:
    """The number of bytes of one picture."""
    return 3 * side**2 + ASPECT_BYTES


def write_row(row: UInt8[np.ndarray, " bytes"], square: UInt8[np.ndarray, "3 s s"], aspect: float) -> None:
    """Put a squeezed picture and its aspect W/H into the row of a batch."""
    row[:-ASPECT_BYTES] = square.reshape(-1)
    row[-ASPECT_BYTES:] = aspect_bytes(aspect)


def aspect_bytes(aspect: float) -> tuple[int, int]:
    """The aspect W/H as the last bytes of a row."""
    octaves = min(max(math.log2(aspect), -OCTAVES), OCTAVES - 1 / STEPS_PER_OCTAVE)
    return divmod(round((octaves + OCTAVES) * STEPS_PER_OCTAVE), 256)


def squares_and_aspects(
    inputs: Shaped[Tensor, "n ..."],
) -> tuple[Shaped[Tensor, "n ..."], Float[Tensor, " n"] | None]:
    """(uint8 [n, 3, side, side], W/H of each) of a batch of whole pictures; other inputs unchanged, and None."""
    if inputs.ndim != 2:
        return inputs, None
    side = side_of(inputs)
    high, low = inputs[:, -ASPECT_BYTES:].float().unbind(1)
    squares = inputs[:, :-ASPECT_BYTES].reshape(len(inputs), 3, side, side)
    return squares, ((256 * high + low) / STEPS_PER_OCTAVE - OCTAVES).exp2()


def side_of(inputs: UInt8[Tensor, "n bytes"]) -> int:
    """The side of the squares in a batch of whole pictures."""
    return math.isqrt((inputs.shape[1] - ASPECT_BYTES) // 3)
