"""Initial weights of a run: a backbone that was trained before, by this program or another."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from care.models import Encoder, stem_of_weights
from care.models.hub import check_published, published_model
from care.models.local_folder import is_timm_folder, timm_config
from care.models.weights import TORCHSCRIPT, Weights, load_backbone_weights, read_safetensors, read_torchscript
from care.objective import ObjectiveSettings, build_encoder
from care.train.checkpoint import load_weights

FORMS = "timm/NAME, timm/NAME@FILE.safetensors, a run folder, a .safetensors file, or a TorchScript file"
BACKBONE, FEATURES = "backbone.", "encoder."  # prefixes of names in a run, and in a TorchScript file of a run


@dataclass(frozen=True, eq=False)
class Initial:
    """Weights of a backbone, under the parameter names of its model, and the metadata found with them.

    `model` is None if the file does not name it. `channels` are the mean and the standard deviation that normalize
    images; if they are missing, timm's for the model are used. `size` is that of the views it was trained with, if
    known.
    """

    weights: Weights
    model: str | None = None
    stem: str = "imagenet"
    channels: dict[str, tuple[float, ...]] = field(default_factory=dict)
    size: int | None = None


def size_of_init(init: str) -> int | None:
    """The size of the images that the weights were trained for, in a run or an export of care; None if unknown."""
    return None if _published_name(init) is not None else read_initial(init).size


def with_model_of_init(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a configuration, with the model and the stem of `init` unless they are set.

    A saved configuration has both set, so `init` is not read again: the file may be gone.
    """
    init, stem = values.get("init"), values.get("stem", "auto")
    if not isinstance(init, str) or ("model" in values and stem != "auto"):
        return values
    name = _published_name(init)
    found = Initial({}, name) if name is not None else read_initial(init)
    theirs, model = found.model, values.get("model", found.model)
    if model is None:
        raise ValueError(f"{init} does not say which model its weights belong to: add it, such as `model` resnet18")
    if theirs is not None and isinstance(model, str) and _bare(theirs) != _bare(model):
        raise ValueError(f"{init} holds the weights of {theirs}, not of {model}: leave out model, or change init")
    return {**values, "model": model, "stem": found.stem if stem == "auto" else stem}


def initial_encoder(settings: ObjectiveSettings, init: str, input_shape: tuple[int, ...]) -> Encoder:
    """The encoder that `settings` describe, for views of this shape, with a new head and the backbone of `init`.

    Images are normalized as in the training of the backbone. ValueError, one sentence, if a weight is missing.
    """
    name = _published_name(init)
    found = read_initial(init) if name is None else Initial(_published(name, input_shape), name)
    encoder = build_encoder(settings, input_shape, **(found.channels or _usual_channels(settings.model)))
    load_backbone_weights(encoder.backbone, settings.model, input_shape, found.weights, init)
    return encoder


def read_initial(init: str) -> Initial:
    """The weights in a file of any supported kind; ValueError that lists the kinds for any other."""
    model, path = None, Path(init)
    if init.startswith("timm/"):
        model, _, given = init.removeprefix("timm/").partition("@")
        path = Path(given)
        if ":" in model or given in ("", "random"):
            raise ValueError(f"cannot initialize from {init}: init must be {FORMS}")
    elif not path.exists():
        raise ValueError(f"{init} does not exist: init must be {FORMS}")
    if path.suffix in TORCHSCRIPT and model is None:
        return _from_torchscript(path)
    if is_timm_folder(path):
        return _from_timm_folder(path)
    path = path / "model.safetensors" if path.is_dir() else path
    weights, about = read_safetensors(path)
    return _from_run(path, model) if "config" in about else _from_file(weights, about, model)


def _published_name(init: str) -> str | None:
    """NAME of timm/NAME, checked; None for anything else."""
    name = init.removeprefix("timm/")
    if name == init or "@" in name or ":" in name:
        return None
    check_published(name)
    return name


def _published(name: str, input_shape: tuple[int, ...]) -> Weights:
    with torch.random.fork_rng(devices=[]):
        return dict(published_model(name, input_shape).state_dict())


def _from_run(file: Path, model: str | None) -> Initial:
    tensors, about = load_weights(file)
    weights = {name.removeprefix(BACKBONE): x for name, x in tensors.items() if name.startswith(BACKBONE)}
    model = model or tomllib.loads(about["config"])["model"]
    input_shape = json.loads(about["source"])
    size = input_shape[0] if len(input_shape) == 2 else None
    return Initial(weights, model, stem_of_weights(weights, about), _channels(tensors), size)


def _from_file(weights: Weights, about: dict[str, str], model: str | None) -> Initial:
    """The weights in a plain safetensors file; files of `care export` carry additional metadata."""
    model = model or (json.loads(about["model"]) if "model" in about else None)
    channels: dict[str, tuple[float, ...]] = {
        name: tuple(json.loads(about[name])) for name in ("mean", "std") if name in about
    }
    size = int(json.loads(about["size"])) if "size" in about else None
    return Initial(weights, model, stem_of_weights(weights, about), channels, size)


def _from_timm_folder(folder: Path) -> Initial:
    """The weights that `care export --to huggingface` wrote, or another program for timm."""
    config, (weights, about) = timm_config(folder), read_safetensors(folder / "model.safetensors")
    usual = config.get("pretrained_cfg", {})
    channels: dict[str, tuple[float, ...]] = {name: tuple(usual[name]) for name in ("mean", "std") if name in usual}
    return Initial(weights, config["architecture"], stem_of_weights(weights, about), channels)


def _from_torchscript(file: Path) -> Initial:
    """The weights of a traced or scripted model; files of `care export` also hold the normalization of images."""
    tensors = dict(read_torchscript(file).state_dict())
    if not tensors:
        raise ValueError(f"{file} has no named weights, because it was frozen: save it without torch.jit.freeze")
    ours = {name.removeprefix(FEATURES): x for name, x in tensors.items() if name.startswith(FEATURES)}
    backbone = {name.removeprefix(BACKBONE): x for name, x in ours.items() if name.startswith(BACKBONE)}
    weights = backbone or tensors
    return Initial(weights, None, stem_of_weights(weights, {}), _channels(ours))


def _channels(tensors: Weights) -> dict[str, tuple[float, ...]]:
    return {name: tuple(tensors[name].tolist()) for name in ("mean", "std") if name in tensors}


def _usual_channels(model: str) -> dict[str, tuple[float, ...]]:
    """timm's mean and standard deviation for the model."""
    import timm.models

    config = timm.models.get_pretrained_cfg(model) if timm.is_model(model) else None
    return {} if config is None else {"mean": tuple(config.mean), "std": tuple(config.std)}


def _bare(model: str) -> str:
    """The name of the architecture, without the tag of the weights."""
    return model.partition(".")[0]
