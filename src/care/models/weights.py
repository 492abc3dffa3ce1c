"""Load the weights of a backbone from a file, by name and completely, or not at all."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from care.models.timm_models import create_timm, in_one_line

Weights = dict[str, Tensor]
TORCHSCRIPT = (".pt", ".ts", ".torchscript")
PICKLED = (".pth", ".bin", ".ckpt", ".pt")
NO_PICKLES = "pickled checkpoints are not read, because they can run code"
SHOWN = 3  # the number of misfitting weights named in an error message


def read_safetensors(file: Path) -> tuple[Weights, dict[str, str]]:
    """(the weights, the metadata) of a file; ValueError if it is missing, damaged, or not a safetensors file."""
    if not file.exists():
        raise ValueError(f"{file} does not exist: check the path of the weights")
    check_unpickled(file)
    if file.suffix != ".safetensors" or not file.is_file():
        raise ValueError(f"{file} is not a .safetensors file with weights")
    try:
        with safe_open(str(file), "pt") as opened:
            about = dict(opened.metadata() or {})
        return safetensors.torch.load_file(file), about
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {in_one_line(error)}") from error


def check_unpickled(file: Path) -> None:
    """ValueError if a file where a .safetensors file is expected has the ending of a pickled checkpoint."""
    if file.suffix.lower() in PICKLED:
        raise ValueError(
            f"{file} is not a .safetensors file; {NO_PICKLES}: if you trust it, load it in your own program and save "
            "the model's state_dict() by safetensors.torch.save_file"
        )


def read_torchscript(file: Path) -> torch.jit.ScriptModule:
    """A TorchScript file on the CPU; ValueError if it is a pickle."""
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated in torch, and still in use
        try:
            return torch.jit.load(str(file), map_location="cpu")
        except RuntimeError as error:
            raise ValueError(
                f"{file} is not TorchScript; {NO_PICKLES}: save the model by "
                "torch.jit.trace(model, images).save(FILE), or the weights of a timm model as .safetensors"
            ) from error


def load_backbone_weights(
    model: nn.Module, name: str, input_shape: tuple[int, ...] | None, weights: Mapping[str, Tensor], where: str
) -> None:
    """Load all weights of the model called `name`, built for `input_shape`, except those of a classifier.

    If names or shapes differ, timm adapts the weights as it does published ones, such as resampling position embeddings
    to another image size. ValueError, one sentence, if a weight is then still missing or left over.
    """
    classifier = _classifier_weights(model, name)
    given = {key: tensor for key, tensor in weights.items() if key not in classifier}
    misfits = _misfits(model, given)
    if misfits:
        adapted = _adapted(name, input_shape, given)
        if adapted is None or _misfits(model, adapted):
            more = f" and {len(misfits) - SHOWN} more" if len(misfits) > SHOWN else ""
            differ = "1 weight differs" if len(misfits) == 1 else f"{len(misfits)} weights differ"
            raise ValueError(f"{where} does not fit {name}, {differ}: {'; '.join(misfits[:SHOWN])}{more}")
        given = adapted
    model.load_state_dict(given)


def _misfits(model: nn.Module, given: Mapping[str, Tensor]) -> list[str]:
    """Descriptions of all weights that have another shape, are missing, or are left over."""
    wanted = model.state_dict()
    shapes = {key: [*tensor.shape] for key, tensor in given.items()}
    wrong = [
        f"{key} should be {[*tensor.shape]} but is {shapes.get(key, 'missing')}"
        for key, tensor in wanted.items()
        if shapes.get(key) != [*tensor.shape]
    ]
    return wrong + [f"{key} is not in the model" for key in given if key not in wanted]


def _classifier_weights(model: nn.Module, name: str) -> set[str]:
    """The names of the weights of the classifier."""
    import timm

    if not timm.is_model(name):
        return set()
    with torch.device("meta"):
        return {*timm.create_model(name).state_dict()} - {*model.state_dict()}


def _adapted(name: str, input_shape: tuple[int, ...] | None, weights: Mapping[str, Tensor]) -> Weights | None:
    """The weights as timm adapts them to its model for images of shape `input_shape`; None if it cannot."""
    import timm

    if not timm.is_model(name):
        return None
    # Passed as published weights of a model without classes: timm then loads all of them, and none stays random.
    overlay: dict[str, Any] = {"state_dict": dict(weights), "num_classes": 0}
    try:
        with torch.random.fork_rng(devices=[]):
            adapted = create_timm(
                name, input_shape, pretrained=True, pretrained_cfg_overlay=overlay, pretrained_strict=True
            )
    except (RuntimeError, TypeError, KeyError, ValueError, AttributeError, IndexError):
        return None
    return adapted.state_dict()
