"""timm's models with published weights, with weights from a file, or with random weights."""

import json
from pathlib import Path

import torch
from torch import nn

from care.models.hub import check_tag, published_model
from care.models.stems import set_stem, stem_of, stem_of_weights
from care.models.timm_models import create_timm
from care.models.weights import load_backbone_weights, read_safetensors
from care.pretrained.model import Channels, PretrainedModel, frozen_model


def timm_pretrained(name: str, channels: Channels | None) -> PretrainedModel:
    """The model `NAME`, `NAME@random` or `NAME@FILE.safetensors`."""
    architecture, _, weights = name.partition("@")
    if ":" in architecture:  # the name of a model on a hub, where @ starts a revision
        architecture, weights = name, ""
    if weights:
        check_tag(architecture)
    if weights not in ("", "random"):
        return _with_weights(architecture, Path(weights), channels)
    with torch.random.fork_rng(devices=[]):  # always the same weights; the global generator is not changed
        torch.default_generator.manual_seed(0)
        model = create_timm(architecture, None) if weights else published_model(architecture)
    usual, size = _usual(model)
    return frozen_model(name if weights else architecture, model, size, channels or usual)


def _with_weights(name: str, file: Path, channels: Channels | None) -> PretrainedModel:
    """A model with weights from a file, and with the image size, mean and std in it if `care export` wrote the file."""
    weights, about = read_safetensors(file)
    exported = {"mean", "std", "size"} <= about.keys()
    own = json.loads(about["size"]) if exported else None
    with torch.random.fork_rng(devices=[]):
        model = create_timm(name, own and (own, own))
        set_stem(model, stem_of_weights(weights, about), own or 0)
    load_backbone_weights(model, name, own and (own, own), weights, str(file))
    usual, size = _usual(model)
    if exported:
        usual = json.loads(about["mean"]), json.loads(about["std"])
    known = own if exported or stem_of(model) != "imagenet" else size
    return frozen_model(f"{name}@{file.stem}", model, known, channels or usual)


def _usual(model: nn.Module) -> tuple[Channels, int | None]:
    """((mean, standard deviation) of the images, their size) that timm has for a model."""
    from timm.data.config import resolve_model_data_config

    config = resolve_model_data_config(model)
    return (config["mean"], config["std"]), config["input_size"][-1]
