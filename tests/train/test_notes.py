"""What is said before a training begins, of data that it can begin with."""

import numpy as np
import pytest

from care.data import write_store
from care.data.readers import DataSource, Example
from care.train import Progress, prepare, train
from care.train.notes import notes
from train.small import small_config, small_data


class Said(Progress):
    def __init__(self):
        self.lines = []

    def say(self, *sentences):
        self.lines += sentences


def stores(folder, gray, heldout=20):
    """Pictures of noise, without classes."""
    for split, count in (("train", 32), ("test", heldout)):
        noise = np.random.default_rng(0).integers(0, 256, (count, 3, 12, 12), dtype=np.uint8)
        pictures = noise[:, :1].repeat(3, 1) if gray else noise
        examples = iter([Example(picture, -1) for picture in pictures])
        write_store(folder / split, "noise", split, DataSource("made", (), 12, 12, count, examples))
    return str(folder)


def said_of(data, tmp_path, **settings):
    job = prepare(small_config(data, **settings), tmp_path / "run")
    job.lock.release()
    return list(notes(job))


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("hue_only", True),
        ("simclr:brightness=0,contrast=0,crop=0,flip=0,blur=0", True),  # saturation, hue, and turning gray
        ("hue_only,crop_only", True),
        ("color_only", False),
        ("simclr", False),
    ],
)
def test_hues_of_gray_pictures_teach_nothing(policy, told, tmp_path):
    gray = stores(tmp_path / "gray", gray=True)
    said = said_of(gray, tmp_path, equivariance="split", equivariance_policy=policy)
    assert [line.startswith("the pictures have no color") and "choose `keep` photometric" in line for line in said] == [
        True
    ] * told


def test_nothing_is_said_of_colors_or_without_an_equivariance(tmp_path):
    colored, gray = (stores(tmp_path / str(gray), gray) for gray in (False, True))
    assert said_of(colored, tmp_path, equivariance="split", equivariance_policy="hue_only") == []
    assert said_of(gray, tmp_path / "another", policy="hue_only") == []


@pytest.mark.parametrize(("validation", "told"), [(0, "or set `validation`"), (3, "a larger `validation`"), (10, None)])
def test_too_few_samples_to_evaluate_on_are_reported(validation, told, tmp_path):
    """12 of a split of their own, 2 · 3 of 2 classes, and 20."""
    data = stores(tmp_path / "data", False, heldout=12) if validation == 0 else small_data(tmp_path / "data")
    said = said_of(data, tmp_path, validation=validation)
    assert len(said) == (told is not None)
    for line in said:
        assert line.startswith(f"only {12 if validation == 0 else 6} samples are held out: care evaluate needs 20, so")
        assert line.endswith(told)


def test_they_are_told_before_the_first_step(tmp_path):
    watching = Said()
    job = prepare(small_config(small_data(tmp_path / "data"), validation=3, epochs=1), tmp_path / "run")
    watching.step = lambda *_: watching.lines.append("a step")
    train(job, watching)
    assert watching.lines[0].startswith("only 6 samples are held out")
    assert "a step" in watching.lines[1:]
