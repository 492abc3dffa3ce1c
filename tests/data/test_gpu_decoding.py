"""Decoding on a GPU, with a stand-in for its decoder: as on the CPU, for pictures of every kind."""

import io
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from care.data import batches
from care.data.readers.decoding import ORIENTATION, UPRIGHT, center_square
from care.data.streamed import gpu_decoders
from care.data.streamed.gpu_decoders import GpuDecoders, Jpeg, groups
from care.data.streamed.jpegs import JpegHeader, jpeg_header
from care.data.streamed.opening import open_pictures
from care.data.streamed.squares import squares, upright
from care.train import prepare
from care.whole_pictures import squares_and_aspects
from train.small import small_config, small_data

CPU = torch.device("cpu")


def smooth(width, height, seed=0, mode="RGB"):
    """A picture without edges, which any decoder of JPEG decodes alike."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def encoded(picture, kind="JPEG", **options):
    data = io.BytesIO()
    picture.save(data, kind, **options)
    return data.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return {"exif": exif}


def xmp(orientation):
    return {"xmp": f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r tiff:Orientation="{orientation}"/></x:xmpmeta>'.encode()}


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, turned(6), {"comment": b"x" * 99}])
def test_a_header_says_what_pillow_says(options):
    data = encoded(smooth(50, 30), **options)
    with Image.open(io.BytesIO(data)) as picture:
        expected = JpegHeader(*picture.size[::-1], picture.getexif().get(ORIENTATION, 1))
    assert jpeg_header(data) == expected
    assert jpeg_header(data[:2] + b"\xff\xff\xff" + data[2:]) == expected  # fill bytes before a marker
    assert jpeg_header(data + b"behind the end") == expected


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [("PNG", "RGB", {}), ("JPEG", "L", {}), ("JPEG", "CMYK", {}), ("JPEG", "RGB", {"keep_rgb": True}),
     ("JPEG", "RGB", xmp(6)), ("GIF", "L", {})],
)  # fmt: skip
def test_what_a_gpu_does_not_decode_as_the_cpu_does(kind, mode, options):
    assert jpeg_header(encoded(smooth(50, 30, mode=mode), kind, **options)) is None


def test_a_file_that_is_cut_off_is_left_to_the_cpu():
    data = encoded(smooth(50, 30), **turned(3))
    assert jpeg_header(data) == JpegHeader(30, 50, 3)
    assert [n for n in range(len(data)) if jpeg_header(data[:n]) is not None] == []


@pytest.mark.parametrize("box", ["center", "whole", "part"])
def test_squares_are_pillows(box):
    """Enlarged, reduced, and both; halves of pixels at the borders of a box. Pillow rounds in between."""
    sizes = [(31, 20), (20, 31), (64, 64), (7, 90), (120, 33)]
    pictures = [Image.fromarray(np.random.default_rng(w).integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
    chosen = {"center": center_square, "whole": lambda w, h: (0, 0, w, h), "part": lambda w, h: (1.25, 2, w / 2, h - 2)}
    boxes = [chosen[box](*size) for size in sizes]
    expected = [p.resize((24, 24), Image.Resampling.BILINEAR, b) for p, b in zip(pictures, boxes, strict=True)]
    tensors = [torch.from_numpy(np.asarray(p).transpose(2, 0, 1).copy()) for p in pictures]
    found = squares(tensors, torch.tensor(boxes, dtype=torch.float64), 24)
    for square, right in zip(found, expected, strict=True):
        assert (square.int() - torch.from_numpy(np.asarray(right).transpose(2, 0, 1).copy()).int()).abs().max() <= 1


@pytest.mark.parametrize("orientation", [0, 1, *UPRIGHT, 9])
def test_squares_are_set_upright_as_pillow_does(orientation):
    picture = smooth(9, 9, seed=3)
    right = picture.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else picture
    square, expected = (torch.from_numpy(np.asarray(p).transpose(2, 0, 1).copy()) for p in (picture, right))
    assert torch.equal(upright(square, orientation), expected)


class StandIn:
    """Decodes as a GPU would, all or nothing; refuses files that hold `bad`."""

    def __init__(self, bad=b"no such bytes"):
        self.bad, self.calls = bad, []

    def __call__(self, files):
        self.calls.append(len(files))
        if any(self.bad in bytes(file.numpy()) for file in files):
            raise RuntimeError("nvjpegDecode failed: 5")
        pictures = [Image.open(io.BytesIO(bytes(file.numpy()))).convert("RGB") for file in files]
        return [torch.from_numpy(np.asarray(picture).transpose(2, 0, 1).copy()) for picture in pictures]


def of_every_kind(folder):
    """Files that a GPU decodes (also turned and progressive), and files that it does not."""
    folder.mkdir()
    files = {
        "a.jpg": encoded(smooth(80, 50, 1)), "b.jpg": encoded(smooth(50, 80, 2), progressive=True),
        "c.jpg": encoded(smooth(64, 40, 3), **turned(6)), "d.jpg": encoded(smooth(64, 40, 4), **turned(2)),
        "e.jpg": encoded(smooth(40, 40, 5, "CMYK")), "f.jpg": encoded(smooth(44, 40, 6, "L")),
        "g.png": encoded(smooth(60, 40, 7), "PNG"), "h.jpg": encoded(smooth(80, 50, 8)),
        "i.jpg": encoded(smooth(80, 50, 9), comment=b"refused by the decoder"),
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def decoded_by_the_gpu(samples, whole, decode):
    """Two batches, with the second read ahead."""
    with GpuDecoders(samples.stored, whole, CPU, decode) as decoders:
        requests = [decoders.request(rows) for rows in samples.rows.split(5)]
        return torch.cat([gather(False) for gather in requests])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("whole", [True, False])
def test_batches_are_those_of_the_cpu(whole, tmp_path):
    samples = open_pictures(of_every_kind(tmp_path / "photos"), "train", 20, workers=2)
    (expected,) = batches(samples, [torch.arange(len(samples))], "cpu", whole=whole)
    decode = StandIn(bad=b"refused by the decoder")
    found = decoded_by_the_gpu(samples, whole, decode)
    (pixels, aspects), (right, true_aspects) = squares_and_aspects(found), squares_and_aspects(expected)
    assert (pixels.int() - right.int()).abs().float().mean((1, 2, 3)).max() < 1
    assert not whole or torch.equal(aspects, true_aspects)
    assert sum(decode.calls) == 6 + decode.calls.count(1)  # six for the GPU; those of the batch with the bad one again


def test_a_file_that_cannot_be_read_has_the_stand_in_of_the_cpu(tmp_path):
    folder = of_every_kind(tmp_path / "photos")
    whole = (folder / "a.jpg").read_bytes()
    (folder / "a.jpg").write_bytes(whole[: len(whole) // 2])
    samples = open_pictures(folder, "train", 20, workers=2)
    with pytest.warns(UserWarning, match=r"a\.jpg cannot be read as a picture .*: another picture takes its place"):
        found = decoded_by_the_gpu(samples, False, StandIn())
    place = {samples.stored.encoded.name(row)[-5:]: i for i, row in enumerate(samples.rows.tolist())}
    assert (found[place["a.jpg"]].int() - found[place["b.jpg"]].int()).abs().float().mean() < 1


def test_a_gpu_that_decodes_nothing_is_told_once(tmp_path):
    samples = open_pictures(of_every_kind(tmp_path / "photos"), "train", 20, workers=2)
    right = decoded_by_the_gpu(samples, False, StandIn())
    with pytest.warns(UserWarning, match="none of 3") as warned:
        found = decoded_by_the_gpu(samples, False, StandIn(bad=b""))
    assert [str(one.message) for one in warned] == ["cpu could decode none of 3 JPEGs: the CPU does, slowly"]
    assert (found.int() - right.int()).abs().float().mean((1, 2, 3)).max() < 1


def test_pictures_are_decoded_in_groups_that_fit_together(monkeypatch):
    monkeypatch.setattr(gpu_decoders, "PIXELS_AT_ONCE", 10_000)
    sizes = [(100, 20), (20, 100), (50, 40), (90, 30), (10, 10), (100, 100)] * 5
    jpegs = {i: Jpeg(torch.empty(0, dtype=torch.uint8), JpegHeader(h, w, 1)) for i, (h, w) in enumerate(sizes)}
    found = list(groups(jpegs))
    assert sorted(i for group in found for i in group) == list(range(len(sizes)))
    for group in found:
        height, width = (max(sizes[i][axis] for i in group) for axis in (0, 1))
        assert len(group) == 1 or len(group) * height * width <= 10_000
    assert len(found) < len(sizes) / 2


def test_giant_pictures_and_memory_that_is_full(tmp_path, monkeypatch):
    samples = open_pictures(of_every_kind(tmp_path / "photos"), "train", 20, workers=2)
    decode = StandIn()

    def full(files):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        decoded_by_the_gpu(samples, False, full)
    monkeypatch.setattr(gpu_decoders, "PIXELS_AT_ONCE", 100)
    with warnings.catch_warnings(action="error"):
        decoded_by_the_gpu(samples, False, decode)
    assert decode.calls == []


def test_what_a_gpu_cannot_do_is_told_before_training(tmp_path):
    config = small_config(small_data(tmp_path / "store"), decoder="gpu")
    with pytest.raises(ValueError, match="needs an NVIDIA GPU, but this run is on cpu: choose `decoder` cpu"):
        prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
