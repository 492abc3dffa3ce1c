"""A few pictures to look at."""

import numpy as np
import pytest
import torch
from PIL import Image

from care.data.readers import read_few, read_folder
from data.reading import collected


def test_they_are_those_that_are_trained_on(tmp_path):
    """A photo of a phone, which lies on its side, and one with a transparent background: as `care data prepare`."""
    folder = tmp_path / "train"
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 4), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise[..., :3]).save(folder / "phone.jpg", exif=exif, quality=95)
    Image.fromarray(noise).save(folder / "transparent.png")
    images, _ = read_few([tmp_path], 16)
    trained_on, _ = collected(read_folder(tmp_path, "train", 16))
    assert sorted(images.flatten(1).tolist()) == sorted(torch.from_numpy(trained_on).flatten(1).tolist())


def test_pictures_are_read_from_files_and_folders(generator, tmp_path):
    for i, shape in enumerate([(30, 50), (64, 20)]):
        noise = torch.randint(256, (*shape, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(noise.numpy()).save(tmp_path / f"{i}.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    assert read_few([tmp_path], 16)[0].shape == (2, 3, 16, 16)
    assert read_few([tmp_path / "1.png", tmp_path], 16)[0].shape == (3, 3, 16, 16)


def test_pictures_are_read_from_the_folders_of_classes(tmp_path):
    """By path, and only where the folder has no picture of its own."""
    for gray, name in enumerate(["cat/1.png", "cat/2.JPG", "dog/.keep", "dog/old/1.png"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (60 * gray,) * 3).save(tmp_path / name, "PNG")
    assert read_few([tmp_path], 8)[0][:, 0, 0, 0].tolist() == [0, 60, 180]
    (tmp_path / "a folder.png").mkdir()
    assert read_few([tmp_path], 8)[1] == 3
    Image.new("RGB", (20, 20), (7, 7, 7)).save(tmp_path / "own.png")
    assert read_few([tmp_path], 8)[0][:, 0, 0, 0].tolist() == [7]
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"there is no picture in .*empty or its subfolders"):
        read_few([tmp_path / "empty"], 8)


def test_of_a_folder_bad_pictures_are_left_out_and_told(tmp_path):
    said = []
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read"):
        read_few([tmp_path], 8)
    (tmp_path / "worse.png").write_bytes(b"nor this")
    with pytest.raises(ValueError, match="none of the 2 chosen pictures can be read"):
        read_few([tmp_path], 8)
    Image.new("RGB", (20, 20), (9, 9, 9)).save(tmp_path / "good.png")
    images, counted = read_few([tmp_path], 8, said.append)
    assert images[:, 0, 0, 0].tolist() == [9]
    assert counted == 3
    assert [sentence.split()[:4] for sentence in said] == [
        ["left", "out:", str(tmp_path / name), "cannot"] for name in ("bad.png", "worse.png")
    ]


def test_bad_pictures_are_named(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read"):
        read_few([bad], 16)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="there is no picture in"):
        read_few([tmp_path / "empty"], 16)
