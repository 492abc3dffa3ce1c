"""JPEGs decoded by the GPU that trains on them. Pictures that it cannot decode are decoded by the CPU."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from PIL import Image
from torch import Tensor

from care.data.pool import cores_of_this_process
from care.data.readers.decoding import SIDEWAYS, center_square, formats
from care.data.readers.pictures import lenient_pillow
from care.data.streamed.jpegs import JpegHeader, jpeg_header
from care.data.streamed.pictures import StreamedPictures
from care.data.streamed.squares import squares, upright
from care.whole_pictures import aspect_bytes

PICTURES_AT_ONCE = 8  # pictures that a thread reads at a time
PIXELS_AT_ONCE = 1 << 25  # pixels decoded together, 100 MB; a larger picture is left to the CPU

# Files in memory → pictures [3, h, w] on the device; RuntimeError if one of them cannot be decoded.
Decode = Callable[[list[UInt8[Tensor, " _"]]], list[UInt8[Tensor, "3 _ _"]]]


@cache
def nvjpeg(device: torch.device) -> Decode:
    """NVIDIA's decoder, through torchvision; ValueError if it is missing or fails on a small test picture."""
    if device.type != "cuda":
        raise ValueError(f"`decoder` gpu needs an NVIDIA GPU, but this run is on {device}: choose `decoder` cpu")
    import torchvision.io  # registers the operation

    rgb = torchvision.io.ImageReadMode.RGB.value

    def decode(files: list[Tensor]) -> list[Tensor]:
        # It writes on its own stream into memory that the current stream may still be reading.
        torch.cuda.current_stream(device).synchronize()
        # torchvision's public function warns at every call that another package will replace it.
        found: list[Tensor] = torch.ops.image.decode_jpegs_cuda(files, rgb, device)
        return found

    small = BytesIO()
    Image.new("RGB", (16, 16)).save(small, "JPEG")
    try:
        decode([torch.frombuffer(bytearray(small.getvalue()), dtype=torch.uint8)])
    except (AssertionError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"{device} cannot decode JPEGs ({str(error).splitlines()[0]}): choose `decoder` cpu"
        ) from error
    return decode


@dataclass(frozen=True)
class Jpeg:
    """An encoded JPEG for the GPU."""

    data: UInt8[Tensor, " bytes"]
    header: JpegHeader

    @property
    def aspect(self) -> float:
        """W/H of the upright picture."""
        aspect = self.header.width / self.header.height
        return 1 / aspect if self.header.orientation in SIDEWAYS else aspect


@dataclass(frozen=True)
class Decoded:
    """A row of a batch decoded by the CPU, and the files that could not be read for it."""

    row: UInt8[np.ndarray, " bytes"]
    problems: dict[str, str]


class GpuDecoders:
    """A context in which `decode` makes batches of pictures on `device`; files are read `ahead` batches in advance.

    Call the result of a request in the thread, and with the stream, of its batch.
    """

    ahead = 2

    def __init__(self, pictures: StreamedPictures, whole: bool, device: torch.device, decode: Decode) -> None:
        self.pictures, self.whole, self.device, self.decode = pictures, whole, device, decode
        self.in_use: dict[int, Jpeg] = {}
        self.warned = False  # whether the warning that the GPU decodes nothing was given
        formats()  # Pillow imports its formats here rather than in several threads at once
        self.readers = ThreadPoolExecutor(pictures.workers or cores_of_this_process(), "care-readers")

    def request(self, indices: Int64[Tensor, " batch"]) -> Callable[[bool], Shaped[Tensor, "batch ..."]]:
        """Start to read the pictures at `indices`; calling the returned function waits for them and decodes them."""
        numbers = indices.tolist()
        parts = [numbers[i : i + PICTURES_AT_ONCE] for i in range(0, len(numbers), PICTURES_AT_ONCE)]
        begun = [self.readers.submit(self._read_all, part) for part in parts]
        return lambda pin: self._collected(numbers, begun)

    def _read_all(self, numbers: list[int]) -> list[Jpeg | Decoded]:
        return [self._read(number) for number in numbers]

    def _read(self, number: int) -> Jpeg | Decoded:
        """A JPEG for the GPU, or a row decoded by the CPU, which also handles every problem with a file."""
        try:
            file = self.pictures.encoded.read(number)
            data = file.read_bytes() if isinstance(file, Path) else file.getvalue()
            header = jpeg_header(data)
        except Exception:
            header = None
        if header is None or header.height * header.width > PIXELS_AT_ONCE:
            return self._by_cpu(number)
        return Jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), header)

    def _by_cpu(self, number: int) -> Decoded:
        row = np.empty(self.pictures.row_bytes(self.whole), np.uint8)
        with lenient_pillow():
            return Decoded(row, self.pictures.decode_into(row, number, self.whole))

    def _collected(self, numbers: list[int], begun: list[Future[list[Jpeg | Decoded]]]) -> Tensor:
        found = dict(enumerate(one for future in begun for one in future.result()))
        batch = torch.empty((len(numbers), self.pictures.row_bytes(self.whole)), dtype=torch.uint8, device=self.device)
        jpegs = {place: one for place, one in found.items() if isinstance(one, Jpeg)}
        failed = [place for places in groups(jpegs) for place in self._by_gpu(batch, places, jpegs)]
        if len(failed) == len(jpegs) > 1 and not self.warned:
            self.warned = True
            warnings.warn(f"{self.device} could decode none of {len(failed)} JPEGs: the CPU does, slowly", stacklevel=2)
        found |= {place: self._by_cpu(numbers[place]) for place in failed}
        for place, one in found.items():
            if isinstance(one, Decoded):
                self.pictures.report(one.problems)
                batch[place] = torch.from_numpy(one.row).to(self.device)
        self.in_use = jpegs  # keep them: the device may read them until the synchronization for the next batch
        return batch if self.whole else batch.view(len(numbers), *self.pictures.shape[1:])

    def _by_gpu(self, batch: Tensor, places: list[int], jpegs: dict[int, Jpeg]) -> list[int]:
        """Decode these rows of a batch; returns the rows that could not be decoded."""
        some = [jpegs[place] for place in places]
        try:
            decoded = self.decode([jpeg.data for jpeg in some])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # one of them is damaged; try each alone to find out which
            if len(places) == 1:
                return places
            return [place for alone in places for place in self._by_gpu(batch, [alone], jpegs)]
        batch.index_copy_(0, torch.tensor(places, device=self.device), self._rows(decoded, some))
        return []

    def _rows(self, decoded: list[Tensor], jpegs: list[Jpeg]) -> UInt8[Tensor, "n bytes"]:
        boxes = torch.tensor([self._box(jpeg.header) for jpeg in jpegs], dtype=torch.float64)
        made = squares(decoded, boxes, self.pictures.side)
        for place, jpeg in enumerate(jpegs):
            if jpeg.header.orientation != 1:
                made[place] = upright(made[place], jpeg.header.orientation)
        if not self.whole:
            return made.flatten(1)
        aspects = torch.tensor([aspect_bytes(jpeg.aspect) for jpeg in jpegs], dtype=torch.uint8)
        return torch.cat([made.flatten(1), aspects.to(self.device)], 1)

    def _box(self, header: JpegHeader) -> tuple[float, float, float, float]:
        """The part of a picture that becomes the square: the whole picture, or its center square."""
        width, height = float(header.width), float(header.height)
        return (0.0, 0.0, width, height) if self.whole else center_square(width, height)

    def __enter__(self) -> "GpuDecoders":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.readers.shutdown(wait=True, cancel_futures=True)


def groups(jpegs: dict[int, Jpeg]) -> Iterator[list[int]]:
    """Groups of pictures of similar sizes, to be decoded together: all are padded to the largest one."""
    group, height, width = list[int](), 0, 0
    for place in sorted(jpegs, key=lambda place: (jpegs[place].header.width, jpegs[place].header.height)):
        header = jpegs[place].header
        height, width = max(height, header.height), max(width, header.width)
        if group and (len(group) + 1) * height * width > PIXELS_AT_ONCE:
            yield group
            group, height, width = [], header.height, header.width
        group.append(place)
    if group:
        yield group
