"""A folder with one of everything that a command can be given, made in a moment."""

import shutil
from pathlib import Path

import safetensors.torch
import torch
from PIL import Image

from care.evaluate import Evaluation
from care.train import prepare, train
from train.small import small_config, small_data

ABOUT = {"model": "mine", "data": "noise", "split": "test", "test_images": 20, "policy": "cifar10", "augmentations": 2}
PROBE = dict.fromkeys(("train_images", "probe", "probe_on", "probe_epochs", "learning_rates", "logistic"))


def make_run(folder, data, **settings):
    """A finished run of a single step."""
    train(prepare(small_config(data, epochs=1, limit=16, **settings), folder))
    return folder


def make_evaluation(folder, **about):
    Evaluation({"about": {**ABOUT, **PROBE, "seed": 0, **about}, "measurements": {}}, {"x": torch.ones(2)}).save(folder)


def make_world(folder: Path) -> Path:
    data = small_data(folder / "data", n=100)
    shutil.copytree(folder / "data" / "test", folder / "onlytest" / "test")
    make_run(folder / "mine", data)
    shutil.copytree(folder / "mine", folder / "unfinished")
    (folder / "unfinished" / "model.safetensors").unlink()
    make_evaluation(folder / "first")
    make_evaluation(folder / "second", seed=1)
    make_evaluation(folder / "third")
    for name in ("photos/a.png", "one/cat/a.png"):
        (folder / name).parent.mkdir(parents=True)
        Image.new("RGB", (40, 30)).save(folder / name)
    (folder / "empty").mkdir()
    (folder / "file").write_text("x")
    (folder / "latin.toml").write_bytes(b'data = "caf\xe9"')
    (folder / "nodata.toml").write_text("epochs = 3")
    (folder / "many.toml").write_text('data = "shapes"\nepochs = "many"')
    torch.save({"w": torch.zeros(2)}, folder / "pickled.pt")
    safetensors.torch.save_file({"w": torch.zeros(2)}, folder / "theirs.safetensors")
    return folder
