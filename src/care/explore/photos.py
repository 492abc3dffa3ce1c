"""The user's own photos, sent by a browser."""

import io
import warnings

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from care.data.readers.decoding import as_rgb, formats

MOST_PIXELS = 50_000_000  # of a photo; larger ones can be prepared by care data prepare
MOST_PHOTOS = 16  # kept in memory: the newest


class Photos:
    """The newest photos by their numbers, each cut to a square as `care data prepare` does it."""

    def __init__(self, side: int) -> None:
        self.side, self._kept, self._given = side, dict[int, Tensor](), 0

    def add(self, data: bytes) -> int:
        """Keep the photo in a file of these bytes, and return its number; ValueError says why it cannot be read."""
        photo, number = read_photo(data, self.side), self._given
        self._kept[number], self._given = photo, number + 1
        self._kept.pop(number - MOST_PHOTOS, None)
        return number

    def __getitem__(self, number: int) -> UInt8[Tensor, "3 side side"]:
        if number not in self._kept:
            raise ValueError(
                f"only the newest {MOST_PHOTOS} photos are kept, without number {number}: drop it in again"
            )
        return self._kept[number]


def read_photo(data: bytes, side: int) -> UInt8[Tensor, "3 {side} {side}"]:
    """The central square of the picture, upright and in RGB, resized to `side` pixels."""
    try:
        picture = _decoded(data)
    except (TooLarge, Image.DecompressionBombError) as error:
        most = MOST_PIXELS // 1_000_000
        raise ValueError(f"photos of at most {most} megapixels are read: make this one smaller") from error
    except Exception as error:  # decoders raise errors of any type
        raise ValueError("this file cannot be read as a picture: send a JPEG, PNG or WebP") from error
    edge = min(picture.size)
    left, top = ((length - edge) / 2 for length in picture.size)
    square = picture.resize((side, side), Image.Resampling.BILINEAR, (left, top, left + edge, top + edge))
    return torch.from_numpy(np.array(square).transpose(2, 0, 1).copy())


class TooLarge(Exception):
    """A picture with more than `MOST_PIXELS` pixels."""


def _decoded(data: bytes) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large pictures and of odd metadata
        with Image.open(io.BytesIO(data), formats=formats()) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise TooLarge
            return as_rgb(picture)
