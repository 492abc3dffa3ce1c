"""Whether pictures have colors."""

from contextlib import suppress

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from care.data.readers.decoding import formats
from care.data.readers.pictures import lenient_pillow
from care.data.readers.side import evenly_spread
from care.data.samples import Samples
from care.data.streamed.pictures import StreamedPictures

GRAY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "F")  # of Pillow
LARGE_ENOUGH = (64, 64)  # pixels, to which a JPEG may be decoded: colors are seen there, too


def all_gray(samples: Samples) -> bool:
    """Whether some pictures of all were read, and every one of these is gray; the first color ends the search."""
    if len(samples.input_shape) != 2:
        return False
    if not isinstance(samples.stored, StreamedPictures):
        return all(_is_gray(samples.take(torch.tensor([row])).inputs[0]) for row in evenly_spread(len(samples)))
    rows = torch.arange(len(samples)) if samples.rows is None else samples.rows
    read = False
    with lenient_pillow():
        for row in rows[evenly_spread(len(rows))].tolist():
            if (gray := _gray_in_file(samples.stored, row)) is False:
                return False
            read |= gray is not None
    return read


def _gray_in_file(pictures: StreamedPictures, index: int) -> bool | None:
    """Whether the picture is gray; None if it cannot be read, which training reports."""
    with suppress(Exception), Image.open(pictures.encoded.read(index), formats=formats()) as picture:
        picture.draft(None, LARGE_ENOUGH)
        return picture.mode in GRAY_MODES or _is_gray(torch.frombuffer(_rgb(picture), dtype=torch.uint8).view(-1, 3).mT)
    return None


def _rgb(picture: Image.Image) -> bytearray:
    return bytearray(picture.convert("RGB").tobytes())


def _is_gray(channels: UInt8[Tensor, "3 ..."]) -> bool:
    return bool((channels == channels[:1]).all())
