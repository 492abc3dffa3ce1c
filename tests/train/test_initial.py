"""A run that begins with weights: its features at step 0 are those of the model that the weights are of."""

import copy
import dataclasses
import shutil
import warnings

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import care
from care.cli import app
from care.export import export
from care.objective import build_encoder
from care.train import Config, default_config, prepare, train
from care.train.checkpoint import save_weights
from care.train.checks import check_objective
from care.train.state import build_state
from pretrained.made import publish
from train.small import same_state, small_data

pytestmark = pytest.mark.usefixtures("coarse_pictures")

SMALL = {"epochs": 1, "batch_size": 16, "embedding_dim": 8, "head_width": 16, "limit": 16, "device": "cpu"}
IMAGENET = (torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Weights of timm's models in files, with a data set and a run beside them."""
    folder = tmp_path_factory.mktemp("initial")
    small_data(folder / "data")
    for name in ("test_resnet", "test_vit", "test_efficientnet"):
        model = trained(timm.create_model(name, num_classes=7))
        save_file(model.state_dict(), folder / f"{name}.safetensors")
    train(prepare(Config.of(data=str(folder / "data"), model="test_resnet", stem="cifar", **SMALL), folder / "run"))
    return folder


def trained(model):
    """Statistics and scales that are not those of a new model."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.ndim == 1:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return model.eval()


@pytest.fixture
def images(generator):
    return torch.rand(3, 3, 32, 32, generator=generator, dtype=torch.float64)


def normalized(images, mean, std):
    return (images - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)


def at_step_0(tmp_path, folder, **settings):
    """The encoder that a run begins with, in evaluation mode, in a precision where the order of sums is little."""
    config = Config.of(data=str(folder / "data"), **SMALL, **settings)
    job = prepare(config, tmp_path / "begun")
    job.lock.release()
    return build_state(config, job.samples, job.processes).encoder.eval().double()


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
@pytest.mark.parametrize("form", ["timm/{name}@{file}", "{file}"])
def test_it_begins_with_the_features_of_timms_model(folder, tmp_path, images, name, form):
    """The Vision Transformer is for 160 px: timm itself resamples its positions to 32 px here."""
    file = folder / f"{name}.safetensors"
    size = {"img_size": 32} if name == "test_vit" else {}
    theirs = (
        timm.create_model(
            name, pretrained=True, num_classes=0, pretrained_cfg_overlay={"file": str(file), "num_classes": 7}, **size
        )
        .eval()
        .double()
    )
    model = {} if form.startswith("timm/") else {"model": name}
    encoder = at_step_0(tmp_path, folder, init=form.format(name=name, file=file), **model)
    mean, std = theirs.pretrained_cfg["mean"], theirs.pretrained_cfg["std"]
    expected = theirs(normalized(images, torch.tensor(mean), torch.tensor(std)))
    torch.testing.assert_close(encoder.features(images), expected, rtol=1e-6, atol=1e-6)


def test_published_weights(folder, tmp_path, images, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    network = trained(timm.create_model("test_efficientnet", num_classes=7))
    publish(tmp_path / "hub", "test_efficientnet.r160_in1k", network.state_dict())
    encoder = at_step_0(tmp_path, folder, init="timm/test_efficientnet.r160_in1k")
    network.reset_classifier(0)
    torch.testing.assert_close(
        encoder.features(images), network.double()(normalized(images, *IMAGENET)), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("form", ["run", "run/model.safetensors", "timm", "torchscript"])
def test_a_run_and_what_was_exported_from_it(folder, tmp_path, images, form):
    """With the stem, and the normalization, that the run was trained with; the head is new."""
    before = care.load(folder / "run").double()
    model = {"model": "test_resnet", "stem": "cifar"} if form == "torchscript" else {}
    init = export(folder / "run", form)[0] if "run" not in form else folder / form
    encoder = at_step_0(tmp_path, folder, init=str(init), **model)
    torch.testing.assert_close(encoder.features(images), before.features(images), rtol=1e-6, atol=1e-6)
    assert not torch.equal(encoder.head[0].weight, before.head[0].weight)


def test_torchscript_of_others(folder, tmp_path, images):
    network = trained(timm.create_model("test_resnet", num_classes=0))
    with warnings.catch_warnings(action="ignore"):
        torch.jit.trace(network, images.float()).save(str(tmp_path / "theirs.pt"))
    encoder = at_step_0(tmp_path, folder, init=str(tmp_path / "theirs.pt"), model="test_resnet")
    expected = network.double()(normalized(images, *(torch.full((3,), 0.5), torch.full((3,), 0.5))))
    torch.testing.assert_close(encoder.features(images), expected, rtol=1e-6, atol=1e-6)


def test_the_file_is_read_once(folder, tmp_path):
    """Stopped, and resumed without it, a run ends as one that was not stopped; and its encoder is loaded without it."""
    file = tmp_path / "weights.safetensors"
    file.write_bytes((folder / "test_resnet.safetensors").read_bytes())
    settings = {**SMALL, "data": str(folder / "data"), "init": f"timm/test_resnet@{file}"}
    train(prepare(Config.of(**settings), tmp_path / "whole"))
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    train(prepare(Config.of(**{**settings, "epochs": 2}), tmp_path / "whole", resume=True))
    file.unlink()
    config = Config.read(tmp_path / "stopped" / "config.toml").replace(epochs=2)
    assert (config.init, config.model, config.stem) == (settings["init"], "test_resnet", "imagenet")
    train(prepare(config, tmp_path / "stopped", resume=True))
    assert same_state(tmp_path / "whole", tmp_path / "stopped")
    care.load(tmp_path / "stopped")


def test_model_and_stem_follow(folder):
    data = str(folder / "data")
    config = default_config(data, init=str(folder / "run"))
    assert (config.model, config.stem) == ("test_resnet", "cifar")
    assert Config.from_toml(config.to_toml()) == config
    other = config.replace(init=f"timm/test_vit@{folder / 'test_vit.safetensors'}")
    assert (other.model, other.stem) == ("test_vit", "imagenet")
    assert other.replace(init=other.init, epochs=3).model == "test_vit"


def test_the_command_says_which_stem_and_which_weights(folder, tmp_path):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    command = ["train", "--data", str(folder / "data"), "--size", "32", "--out", str(tmp_path / "run"), *options]
    result = CliRunner().invoke(app, [*command, "--init", str(folder / "run")])
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "cifar: a 3×3 convolution of stride 1 and no max-pool give a last feature map of 4×4" in said
    text = (tmp_path / "run" / "config.toml").read_text()
    assert f'init = "{folder / "run"}"' in text
    assert 'model = "test_resnet"\nstem = "cifar"' in text


def test_a_file_from_before_there_were_stems(tmp_path, generator):
    """Every ResNet for images of up to 64 px had the one called cifar now, and its file does not say so."""
    config = Config.of(data="shapes", model="resnet18", size=48, **SMALL)
    (tmp_path / "old").mkdir()
    with torch.random.fork_rng():
        encoder = build_encoder(dataclasses.replace(config, stem="cifar"), (48, 48)).eval()
    metadata = {"config": config.to_toml().replace('stem = "auto"\n', ""), "source": "[48, 48]"}
    save_weights(tmp_path / "old" / "model.safetensors", encoder.state_dict(), metadata)
    images = torch.rand(1, 3, 48, 48, generator=generator)
    torch.testing.assert_close(care.load(tmp_path / "old").features(images), encoder.features(images))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init": "nowhere"}, "nowhere does not exist: init must be timm/NAME"),
        ({"init": "timm/resnet81"}, "timm has no model 'resnet81'; did you mean"),
        ({"init": "timm/resnet18.mine"}, "timm has no weights 'resnet18.mine'; choose one of"),
        ({"init": "timm/resnet18@random"}, "cannot initialize from timm/resnet18@random: init must be"),
        ({"init": "timm/hf-hub:org/name"}, "cannot initialize from timm/hf-hub:org/name: init must be"),
        ({"init": "{folder}/data"}, "data/model.safetensors does not exist: check the path"),
        ({"init": "timm/resnet18@{folder}/none.safetensors"}, "none.safetensors does not exist: check the path"),
        ({"init": "{folder}/notes.txt"}, "is not a .safetensors file"),
        ({"init": "{folder}/w.pth", "model": "test_resnet"}, "w.pth .* pickled checkpoints are not read, because they"),
        ({"init": "{folder}/broken.safetensors"}, "broken.safetensors is damaged"),
        ({"init": "{folder}/pickled.pt", "model": "test_resnet"}, "pickled checkpoints are not read"),
        ({"init": "{folder}/frozen.pt", "model": "test_resnet"}, "frozen.pt has no named weights"),
        ({"init": "{folder}/test_vit.safetensors"}, "does not say which model its weights belong to: add it"),
        ({"init": "{folder}/run", "model": "resnet50"}, "holds the weights of test_resnet, not of resnet50"),
        (
            {"init": "timm/test_vit@{folder}/test_resnet.safetensors"},
            r"fit test_vit, \d+ weights differ: .* more$",
        ),
        (
            {"init": "timm/test_resnet@{folder}/deeper.safetensors"},
            r"12 weights differ: layer1.1.\S+ is not in .* and \d+ more$",
        ),
        (
            {"init": "timm/test_vit@{folder}/less.safetensors"},
            "2 weights differ: pos_embed .*; norm.weight .* is missing$",
        ),
        (
            {"init": "timm/resnet18@{folder}/imagenet.safetensors", "stem": "cifar"},
            r"1 weight differs: conv1.weight should be \[64, 3, 3, 3\] but is \[64, 3, 7, 7\]$",
        ),
    ],
)
def test_mistakes_are_a_sentence_before_any_work(folder, mistakes, settings, message):
    settings = {key: value.format(folder=folder) for key, value in settings.items()}
    with pytest.raises(ValueError, match=message):
        check_objective(Config.of(data=str(folder / "data"), **SMALL, **settings), (12, 12))


@pytest.fixture(scope="module")
def mistakes(folder):
    """Files beside the good ones that are not what they should be."""
    for name in ("w.pth", "notes.txt", "broken.safetensors"):
        (folder / name).write_text("nothing of the kind")
    torch.save({"w": torch.zeros(2)}, folder / "pickled.pt")
    with warnings.catch_warnings(action="ignore"):
        frozen = torch.jit.freeze(torch.jit.trace(nn.Conv2d(3, 2, 1).eval(), torch.zeros(1, 3, 4, 4)))
        frozen.save(str(folder / "frozen.pt"))
    save_file(timm.create_model("resnet18", num_classes=0).state_dict(), folder / "imagenet.safetensors")
    model = timm.create_model("test_resnet", num_classes=0)
    model.layer1.append(copy.deepcopy(model.layer1[0]))
    save_file(model.state_dict(), folder / "deeper.safetensors")
    less = timm.create_model("test_vit", num_classes=0).state_dict()
    del less["norm.weight"]
    save_file(less, folder / "less.safetensors")
