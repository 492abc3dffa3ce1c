"""How large the pictures of a data set are."""

import torch

from care.data.readers.side import evenly_spread, median_side
from care.data.samples import Samples
from care.data.streamed.pictures import StreamedPictures


def picture_side(samples: Samples) -> int:
    """The shorter side of the pictures in pixels; the median of some of them, if they are not prepared."""
    if not isinstance(samples.stored, StreamedPictures):
        return min(samples.input_shape)
    rows, encoded = torch.arange(len(samples)) if samples.rows is None else samples.rows, samples.stored.encoded
    return median_side(encoded.read(row) for row in rows[evenly_spread(len(rows))].tolist()) or samples.stored.side
