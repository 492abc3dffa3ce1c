"""Damaged files end in success with the same bits as before, or in one error that names the file: never in between.

A small run by default; `pytest -m fuzz tests/fuzz` is the large one.
"""

import json
import shutil
from collections import Counter

import pytest
import torch

import care
from care import steer
from care.atomic_files import is_sealed
from care.data import open_store
from care.evaluate import Evaluation
from care.train import Config, Run, load, prepare, train
from care.train.checkpoint import load_latest
from care.train.config import FREE_ON_RESUME
from cli.world import make_evaluation, make_run
from fuzz.damage import KINDS, damaged
from train.saved import equal
from train.small import small_data

FEW, MANY = 2 * len(KINDS), 100 * len(KINDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    data = small_data(folder / "data", n=20, pixels=6)
    run = make_run(folder / "run", data, batch_size=8)
    config = Run(run).config()
    shutil.copytree(run / "checkpoints", folder / "before")
    newest = max((run / "checkpoints").iterdir())
    shutil.copytree(newest, folder / "checkpoints" / newest.name)
    make_evaluation(folder / "evaluation")
    turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    steer.save(
        steer.LearnedRotation(("hue",), 1.0, torch.eye(4)[:, :2], turn.repeat(2, 1, 1), (("hue", "hue"),)),
        folder / "rotation.safetensors",
    )
    return folder, config


def checkpoint_of(folder):
    found = load_latest(folder / "checkpoints")
    return found.step, found.tensors, found.state


def encoder_of(folder):
    return dict(load(folder / "run").state_dict())


def store_of(folder):
    samples = open_store(folder / "data" / "train", verify=True)
    return samples.inputs.clone(), samples.labels, samples.classes, samples.name


def store_as_it_is_opened(folder):
    """Pictures are not read for their checksum: all of it but these."""
    samples = open_store(folder / "data" / "train")
    return tuple(samples.inputs.shape), samples.labels, samples.classes, samples.name


def evaluation_of(folder):
    read = Evaluation.load(folder / "evaluation")
    return read.record, dict(read.arrays)


def rotation_of(folder):
    read = steer.load(folder / "rotation.safetensors")
    return read.names, read.center, read.basis, read.generators, read.products


def resumed(folder):
    """What `--resume` checks before it goes on: the configuration, and that the checkpoint was made with it.

    All of it but what may be another when a run is resumed: how it is carried out, and more epochs.
    """
    job = prepare(Run(folder / "run").config(), folder / "run", resume=True)
    job.lock.release()
    return {name: value for name, value in job.config.flat().items() if name not in ("epochs", *FREE_ON_RESUME)}


READERS = {
    "checkpoints/*/tensors.safetensors": checkpoint_of,
    "checkpoints/*/state.json": checkpoint_of,
    "run/model.safetensors": encoder_of,
    "run/config.toml": resumed,
    "data/train/images-00000.bin": store_of,
    "data/train/labels.bin": store_as_it_is_opened,
    "data/train/store.json": store_as_it_is_opened,
    "evaluation/evaluation.json": evaluation_of,
    "evaluation/arrays.safetensors": evaluation_of,
    "rotation.safetensors": rotation_of,
}


def attempt(read, folder):
    """(what was read, None), or (None, the message of the one error that is allowed)."""
    try:
        return read(folder), None
    except ValueError as error:
        return None, str(error)


def outcomes(folder, pattern, versions):
    """How often a changed file was refused by name, and how often it was read as if nothing had happened."""
    (file,) = folder.glob(pattern)
    read, whole = READERS[pattern], file.read_bytes()
    expected, counts = read(folder), Counter()
    try:
        for kind, data in versions(whole):
            file.write_bytes(data)
            found, message = attempt(read, folder)
            if message is None:
                assert data == whole or equal(found, expected), f"{kind} of {pattern} went unnoticed"
                counts["unchanged" if data == whole else "the same bits"] += 1
            else:
                # Where a digit of the path to the data or of a number of samples has changed or is gone, it is the data
                # that cannot be read, or is too little.
                said = ("is not a folder", "is not an image store", "do not fill one batch", "cannot be taken")
                elsewhere = pattern == "run/config.toml" and any(words in message for words in said)
                assert file.name in message or elsewhere, f"{kind}: {message}"
                assert "\n" not in message
                counts["refused"] += 1
    finally:
        file.write_bytes(whole)
    return counts


def drawn(numbers):
    return lambda whole: (damaged(whole, number) for number in numbers)


def every_byte(whole):
    """Each byte flipped in two ways, and each length but the right one."""
    for at in range(len(whole)):
        for mask in (0x01, 0xFF):
            yield f"{at} ^ {mask}", whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
        yield f"cut at {at}", whole[:at]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("pattern", READERS)
def test_damage_is_named_or_harmless(world, pattern):
    counts = outcomes(world[0], pattern, drawn(range(FEW)))
    assert counts["refused"] > FEW // 2


@pytest.mark.fuzz
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("pattern", READERS)
def test_much_damage_is_named_or_harmless(world, pattern, capsys):
    counts = outcomes(world[0], pattern, drawn(range(FEW, FEW + MANY)))
    with capsys.disabled():
        print(f"\n{pattern}: {dict(counts)}")
    assert counts["refused"] > MANY // 2


@pytest.mark.fuzz
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("pattern", ["data/train/store.json", "evaluation/evaluation.json", "run/config.toml"])
def test_every_byte_of_the_texts(world, pattern, capsys):
    """Exhaustively, as tests/train/test_damage.py does for checkpoints and weights."""
    counts = outcomes(world[0], pattern, every_byte)
    with capsys.disabled():
        print(f"\n{pattern}, every byte: {dict(counts)}")


@pytest.mark.usefixtures("unchecked")
def test_a_damaged_log_is_named_by_its_line_and_written_again_by_resuming(world):
    """The log is for reading: what counts is in the checkpoint, from which --resume writes it again."""
    folder, config = world
    file = folder / "run" / "log.jsonl"
    whole, refused = file.read_bytes(), 0
    for number in range(3 * FEW):
        _, data = damaged(whole, number)
        file.write_bytes(data)
        _, message = attempt(lambda folder: Run(folder / "run").log(), folder)
        assert message is None or "log.jsonl is damaged" in message
        refused += message is not None
    assert refused > FEW
    train(prepare(config, folder / "run", resume=True))
    assert file.read_bytes() == whole


@pytest.mark.usefixtures("unchecked")
def test_the_configuration_of_a_trained_encoder_is_in_its_weights(world):
    """`care evaluate` and `care export` do not depend on config.toml, which somebody may have edited."""
    folder, config = world
    file = folder / "run" / "config.toml"
    whole = file.read_text()
    file.write_text(whole.replace("embedding_dim = 8", "embedding_dim = 9"))
    try:
        assert care.load(folder / "run")(torch.zeros(2, 3, 32, 32)).shape == (2, 8)
        with pytest.raises(ValueError, match=r"config\.toml was changed since .*: embedding_dim: 9 instead of 8"):
            prepare(Run(folder / "run").config(), folder / "run", resume=True)
    finally:
        file.write_text(whole)
    assert Config.read(file) == config


def test_the_seal_covers_every_byte(world):
    """Independently of the readers: no two texts have one seal."""
    text = (world[0] / "evaluation" / "evaluation.json").read_bytes()
    assert is_sealed(text)
    assert json.loads(text)["about"]["model"] == "mine"
    assert not any(is_sealed(damaged(text, number)[1]) for number in range(FEW) if damaged(text, number)[1] != text)
