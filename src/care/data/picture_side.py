"""How large the pictures of a data set are."""

from contextlib import suppress
from statistics import median_high

import torch
from jaxtyping import Int64
from PIL import Image
from torch import Tensor

from care.data.readers.decoding import formats
from care.data.readers.pictures import lenient_pillow
from care.data.samples import Samples
from care.data.streamed.pictures import StreamedPictures

LOOKED_AT = 64  # files, of which only the beginning is read


def picture_side(samples: Samples) -> int:
    """The shorter side of the pictures in pixels; the median of some of them, if they are not prepared."""
    if not isinstance(samples.stored, StreamedPictures):
        return min(samples.source)
    rows = torch.arange(len(samples)) if samples.rows is None else samples.rows
    with lenient_pillow():
        sides = [side for row in rows[some_rows(len(rows))].tolist() if (side := _side_in_file(samples.stored, row))]
    return median_high(sides) if sides else samples.stored.side


def some_rows(count: int) -> Int64[Tensor, " some"]:
    """Some of so many rows, evenly spread: for what can be told from a few pictures."""
    return torch.linspace(0, count - 1, min(LOOKED_AT, count)).round().long()


def _side_in_file(pictures: StreamedPictures, index: int) -> int | None:
    """The shorter side according to the header of a file; None if it cannot be read, which training reports."""
    with suppress(Exception), Image.open(pictures.encoded.read(index), formats=formats()) as picture:
        return min(picture.size)
    return None
