"""Read the headers of JPEG files, to decide whether a GPU can decode them."""

from dataclasses import dataclass

from PIL import Image

from care.data.readers.decoding import ORIENTATION

START, SCAN, END = b"\xff\xd8", 0xDA, b"\xff\xd9"
HUFFMAN = (0xC0, 0xC1, 0xC2)  # baseline, extended, progressive
OTHERS = (0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)  # lossless, hierarchical, arithmetic
APP1, APP14 = 0xE1, 0xEE
ALONE = (0x01, *range(0xD0, 0xD9))  # markers that no segment follows


@dataclass(frozen=True)
class JpegHeader:
    """The size of a JPEG as it is stored, and its EXIF orientation."""

    height: int
    width: int
    orientation: int


def jpeg_header(data: bytes) -> JpegHeader | None:
    """The header of an 8-bit YCbCr JPEG; None for files that are better left to the CPU.

    These are other formats, gray, CMYK and RGB, rare encodings, an orientation stored outside of EXIF, and truncated
    files, which a GPU may decode without an error.
    """
    try:
        return _header(data) if data.startswith(START) else None
    except (IndexError, ValueError):
        return None


def _header(data: bytes) -> JpegHeader | None:
    place, size, exif = len(START), None, b""
    while True:
        marker, place, segment = _segment(data, place)
        if marker == SCAN:
            break
        if marker in OTHERS or (marker in HUFFMAN and not _is_ycbcr(segment)):
            return None
        if marker in HUFFMAN:
            size = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
        if marker == APP14 and segment.startswith(b"Adobe") and segment[11] == 0:  # RGB
            return None
        if marker == APP1 and (exif or (not segment.startswith(b"Exif\0\0") and b"Orientation" in segment)):
            return None
        if marker == APP1 and segment.startswith(b"Exif\0\0"):
            exif = segment
    if size is None or 0 in size or data.rfind(END, place) < 0:
        return None
    return JpegHeader(*size, _orientation(exif))


def _segment(data: bytes, place: int) -> tuple[int, int, bytes]:
    """(marker, position of the next marker, content of the segment); ValueError if there is no marker."""
    if data[place] != 0xFF:
        raise ValueError("there is no marker")
    while data[place] == 0xFF:  # a marker may have any number of fill bytes
        place += 1
    marker, place = data[place], place + 1
    if marker in ALONE:
        return marker, place, b""
    end = place + int.from_bytes(data[place : place + 2], "big")
    if end < place + 2 or end > len(data):
        raise ValueError("a segment is truncated")
    return marker, end, data[place + 2 : end]


def _is_ycbcr(frame: bytes) -> bool:
    """Whether a frame has three 8-bit components that are not named R, G and B."""
    bits, components, names = frame[0], frame[5], frame[6::3]
    return bits == 8 and components == 3 and names != b"RGB"


def _orientation(exif: bytes) -> int:
    if not exif:
        return 1
    try:
        found = Image.Exif()
        found.load(exif)
        return int(found.get(ORIENTATION, 1))
    except Exception:  # EXIF that cannot be read does not make a picture unreadable
        return 1
