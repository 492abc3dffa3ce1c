"""Load a pretrained model by its name."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from care.models.local_folder import is_timm_folder, timm_config
from care.models.weights import TORCHSCRIPT, check_unpickled, read_torchscript
from care.pretrained.model import Channels, PretrainedModel, frozen_model
from care.pretrained.onnx_model import OnnxModel
from care.pretrained.timm_model import timm_pretrained
from care.tables import visible
from care.train.trained import load_trained, run_name

FORMS = "a run folder, timm/NAME, timm/NAME@random, timm/NAME@FILE.safetensors, or a TorchScript or ONNX file"


def load_pretrained(
    what: str, mean: Sequence[float] | None = None, std: Sequence[float] | None = None, layer: str | None = None
) -> PretrainedModel:
    """The model that `what` names, frozen, on the CPU.

    `runs/mine`               a run of ours, its `model.safetensors`, or one of its checkpoints
    `mine`                    a folder that `care export --to huggingface` wrote, also `timm/local-dir:mine`
    `timm/resnet50.a1_in1k`   a model of timm with published weights; also `timm/hf-hub:ORG/NAME`
    `timm/resnet18@random`    a model of timm with random weights, always the same
    `timm/resnet18@FILE`      a model of timm with the weights of a `.safetensors`, such as `care export` writes
    `FILE.pt`, `FILE.onnx`    TorchScript (also `.ts`, `.torchscript`) and ONNX

    Images in [0, 1] are normalized by `mean` and `std`. By default, a model of timm uses timm's values, or those that
    `care export` wrote beside its weights; TorchScript and ONNX models use none (`care export` builds them in). With a
    `layer` of its backbone, such as layer3, that layer is one more output.
    """
    model = _load(what, _channels(mean, std))
    return model if layer is None else model.with_layer(layer)


def _load(what: str, channels: Channels | None) -> PretrainedModel:
    path = Path(what)
    if what.startswith("timm/"):
        return timm_pretrained(what.removeprefix("timm/"), channels)
    if not path.exists():
        raise ValueError(f"{what} does not exist; a model is {FORMS}")
    if is_timm_folder(path):
        timm_config(path)  # ValueError if it names no model
        return dataclasses.replace(timm_pretrained(f"local-dir:{path}", channels), name=visible(path.resolve().name))
    if path.is_dir() or path.suffix == ".safetensors":
        return _trained_run(path, channels)
    if path.suffix in TORCHSCRIPT:
        return frozen_model(path.stem, read_torchscript(path), None, channels)
    if path.suffix == ".onnx":
        model = OnnxModel(path)
        return frozen_model(path.stem, model, model.size, channels)
    check_unpickled(path)
    raise ValueError(f"{what} cannot be read; a model is {FORMS}")


def _channels(mean: Sequence[float] | None, std: Sequence[float] | None) -> Channels | None:
    if mean is None and std is None:
        return None
    if mean and std and len(mean) == len(std) == 3 and min(std) > 0 and all(map(math.isfinite, (*mean, *std))):
        return mean, std
    raise ValueError(
        f"mean and std must be three numbers each, all finite and those of std positive, got {mean} and {std}"
    )


def _trained_run(path: Path, channels: Channels | None) -> PretrainedModel:
    if channels:
        raise ValueError(f"{path} is a run, which normalizes images as it was trained to: leave out mean and std")
    try:
        trained = load_trained(path)
    except ValueError as error:
        hint = "" if path.is_dir() else f"; weights of a model of timm are given as timm/NAME@{path}"
        raise ValueError(f"{error}{hint}") from error
    size = trained.input_shape[0] if len(trained.input_shape) == 2 else None
    equivariant_dim = trained.config.equivariant_dim
    return PretrainedModel(
        visible(run_name(path)), trained.encoder, size, has_head=True, equivariant_dim=equivariant_dim
    )
