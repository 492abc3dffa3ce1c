"""Pictures that are not prepared: the same from files, tar shards and tables, decoded by other processes."""

import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from on_disk import (
    CLASSES,
    WRITERS,
    number_of,
    picture,
    write_files,
)
from PIL import Image

from care.data import batches
from care.data.streamed import decoders as decoding
from care.data.streamed.opening import open_pictures
from care.whole_pictures import squares_and_aspects

N, SIDE = 22, 8
# Processes are forked, and the test process has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(params=WRITERS)
def samples(request, tmp_path):
    return open_pictures(WRITERS[request.param](tmp_path / "photos", N), "train", SIDE, workers=2)


def expected(number, whole):
    """By Pillow alone."""
    found = picture(number)
    if not whole:
        edge, (width, height) = min(found.size), found.size
        left, top = (width - edge) / 2, (height - edge) / 2
        found = found.resize((SIDE, SIDE), Image.Resampling.BILINEAR, (left, top, left + edge, top + edge))
    else:
        found = found.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(found).transpose(2, 0, 1).copy())


@pytest.mark.parametrize("whole", [False, True])
def test_batches_are_the_pictures(samples, whole):
    order = torch.arange(N).split(5)
    found = torch.cat(list(batches(samples, order, "cpu", whole=whole)))
    squares, aspects = squares_and_aspects(found)
    numbers = number_of(squares)
    assert sorted(numbers) == list(range(N))
    assert torch.equal(squares, torch.stack([expected(number, whole) for number in numbers]))
    assert samples.labels.tolist() == [number % 2 for number in numbers]
    if whole:
        sizes = [picture(number).size for number in numbers]
        assert aspects.tolist() == pytest.approx([width / height for width, height in sizes], rel=1e-3)
    else:
        assert torch.equal(found, samples.inputs)
        assert samples.subset(torch.tensor([3, 1])).inputs.equal(found[[3, 1]])
        assert samples.limit(4).to("cpu").stored.equal(found[:4])


def test_they_are_samples_as_any(samples):
    named = samples.stored.encoded.classes == CLASSES
    assert named or samples.classes == ("0", "1")
    assert (len(samples), samples.input_shape, samples.nbytes) == (N, (SIDE, SIDE), N * 3 * SIDE * SIDE)
    assert samples.streamed
    train, validation = samples.split(per_class=3)
    assert len(validation) == 6
    assert sorted(number_of(train.inputs) + number_of(validation.inputs)) == list(range(N))
    assert len(set(samples.limit(10).labels.tolist())) == 2  # files and shards go by class or number
    assert train.digest() != samples.digest() == samples.subset(torch.arange(N)).digest()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_picture_of_another_size_is_another_data_set(kind, tmp_path, monkeypatch):
    """Every kind of source tells itself from one in which a picture was replaced, whatever the names."""
    import on_disk

    digest = lambda folder: open_pictures(WRITERS[kind](tmp_path / folder, 6), "train", SIDE).digest()  # noqa: E731
    right = on_disk.encoded
    same = digest("a"), digest("b")
    monkeypatch.setattr(on_disk, "encoded", lambda number: right(number) + (os.urandom(500) if number == 3 else b""))
    assert same[0] == same[1] != digest("c")


@pytest.mark.parametrize("samples", ["files"], indirect=True)  # the processes and their batches know no kinds
def test_the_first_batch_is_the_largest(samples):
    with pytest.raises(ValueError, match="a batch of 3 pictures follows one of 2"):
        list(batches(samples, [torch.arange(2), torch.arange(3)], "cpu"))
    with pytest.raises(ValueError, match="indices go from 0 to 22, but there are 22 samples"):
        list(batches(samples, [torch.tensor([0, N])], "cpu"))
    assert list(batches(samples, [], "cpu")) == []


@pytest.mark.parametrize("samples", ["files", "parquet"], indirect=True)
def test_many_batches_go_through_few_slots(samples, generator):
    """More requests than slots, each with its own pictures."""
    order = [torch.randint(N, (4,), generator=generator) for _ in range(40)]
    everything = samples.inputs
    for indices, batch in zip(order, batches(samples, order, "cpu"), strict=True):
        assert torch.equal(batch, everything[indices])


@pytest.mark.parametrize("kind", ["files", "parquet"])
def test_a_process_is_asked_for_pictures_of_few_shards_at_a_time(kind, tmp_path, monkeypatch):
    pictures = open_pictures(WRITERS[kind](tmp_path / "photos", 20), "train", SIDE, workers=1).stored
    asked = []
    monkeypatch.setattr(decoding, "PICTURES_AT_ONCE", 5)
    with decoding.Decoders(pictures, 20, whole=False) as made:
        monkeypatch.setattr(made.pool, "submit", lambda slot, rows, indices: asked.append((rows, indices)))
        batch = torch.tensor([19, 3, 7, 12, 0, 15, 8, 4, 11, 16, 2, 5, 14, 9, 1, 18, 6, 10, 13, 17])
        made.request(batch)
    assert all(batch[rows].tolist() == indices for rows, indices in asked)
    assert sorted(row for rows, _ in asked for row in rows) == list(range(20))
    groups = [{index // 5 for index in indices} for _, indices in asked]  # row groups have five rows
    assert groups == ([{3}, {0}, {1}, {2}] if kind == "parquet" else [{0, 1, 2, 3}, *groups[1:]])


def decoders():
    """The processes that this one has started."""
    return [int(line) for line in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads decode elsewhere")
@pytest.mark.parametrize("samples", ["files"], indirect=True)
def test_the_processes_come_and_go(samples):
    before = set(decoders())
    stream = batches(samples, [torch.arange(4)] * 100, "cpu")
    next(stream)
    ours = set(decoders()) - before
    assert len(ours) == 2
    for process in ours:  # Ctrl-C goes to all of them
        os.kill(process, signal.SIGINT)
        os.kill(process, signal.SIGTERM)
    assert [len(next(stream)) for _ in range(50)] == [4] * 50  # more than were decoded before
    stream.close()
    assert set(decoders()) == before
    stream = batches(samples, [torch.arange(4)] * 100, "cpu")
    next(stream)
    for process in set(decoders()) - before:
        os.kill(process, signal.SIGKILL)
    with pytest.raises(OSError, match="was killed: is there too little memory"):
        list(stream)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_picture_that_cannot_be_read_has_a_stand_in(kind, tmp_path, monkeypatch):
    import on_disk

    right = on_disk.encoded
    monkeypatch.setattr(on_disk, "encoded", lambda number: b"\xff\xd8\xff broken" if number == 6 else right(number))
    samples = open_pictures(WRITERS[kind](tmp_path / "photos", N), "train", SIDE, workers=2)
    order = torch.arange(N).split(11)
    with pytest.warns(UserWarning, match=r"6.*cannot be read as a picture .*: another picture takes its place") as told:
        first, again = (torch.cat(list(batches(samples, order, "cpu"))) for _ in range(2))
    assert len(told) == 1
    assert torch.equal(first, again)
    numbers = number_of(first)
    assert [number % 2 for number in numbers] == samples.labels.tolist()  # the stand-in is of the same class
    twice = sorted(numbers)
    assert set(twice) == set(range(N)) - {6}
    assert len(twice) == N


def test_many_that_cannot_be_read_are_an_error(tmp_path):
    folder = write_files(tmp_path / "photos", N)
    for number in range(0, N, 2):
        (folder / "train" / "cat" / f"{number:03d}.png").write_bytes(b"GIF8 no more")
    samples = open_pictures(folder, "train", SIDE, workers=1)
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(OSError, match=r"11 of 22 pictures cannot be read, the first of them: .*png"),
    ):
        list(batches(samples, torch.arange(N).split(11), "cpu"))


@pytest.mark.parametrize("kind", ["files", "tars", "parquet"])
def test_pictures_that_are_gone_are_an_error_that_names_one(kind, tmp_path):
    """An OSError, which ends a training in one line; an Arrow file that is mapped stays until it is let go."""
    folder = WRITERS[kind](tmp_path / "photos", N)
    samples = open_pictures(folder, "train", SIDE, workers=1)
    for file in folder.rglob("*.*"):
        file.unlink()
    gone = r"11 of 22 pictures cannot be read, the first of them: .*photos.* cannot be read"
    with pytest.raises(OSError, match=gone):
        list(batches(samples, torch.arange(N).split(11), "cpu"))
