"""A trained encoder as a folder that timm and the Hugging Face hub load: config.json, model.safetensors, README.md."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import save
from torch import Tensor, nn

from care.export.model_card import model_card
from care.models import Encoder
from care.objective import policy_for
from care.train.trained import Trained


def write_huggingface(run: Path, trained: Trained, folder: Path) -> Callable[[Tensor], Tensor]:
    """Fill the new folder; returns a function that computes the features with the model that timm loads from it.

    ValueError, before anything is written, for a backbone that timm cannot build.
    """
    config, encoder = trained.config, trained.encoder
    state = {name: tensor.contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    arguments, model = _as_timm_builds_it(config.model, trained.input_shape, state)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(save(state, {"format": "pt"}))
    about = _model_config(config.model, model, arguments, trained)
    (folder / "config.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(model_card(run, trained), encoding="utf-8")
    with torch.random.fork_rng(devices=[]):
        loaded = timm.create_model(f"local-dir:{folder}", pretrained=True)
    channels = (tuple(values.tolist()) for values in (encoder.mean, encoder.std))
    return Encoder(loaded.eval(), nn.Identity(), *channels).features


def _as_timm_builds_it(
    name: str, input_shape: tuple[int, ...], state: dict[str, Tensor]
) -> tuple[dict[str, Any], nn.Module]:
    """(arguments, model): how timm builds a model whose weights have these names and shapes."""
    wanted = {key: tensor.shape for key, tensor in state.items()}
    sized: dict[str, Any] = {"img_size": list(input_shape)}
    for arguments in (sized, {}) if timm.is_model(name) else ():
        # models for any input size do not have the argument
        with suppress(TypeError), torch.random.fork_rng(devices=[]):
            model = timm.create_model(name, num_classes=0, **arguments)
            if {key: tensor.shape for key, tensor in model.state_dict().items()} == wanted:
                return arguments, model
    why = "with the stem that this run has for small images" if timm.is_model(name) else "at all"
    raise ValueError(f"timm does not build {name} {why}: use `to` onnx or torchscript")


def _model_config(name: str, model: nn.Module, arguments: dict[str, Any], trained: Trained) -> dict[str, Any]:
    """The configuration for timm: how to build the model, and how to prepare pictures for it."""
    usual: dict[str, Any] = dict(model.pretrained_cfg)  # type: ignore[arg-type]
    names = {key: usual[key] for key in ("first_conv", "classifier", "fixed_input_size") if usual.get(key) is not None}
    prepared = {
        "input_size": [3, *trained.input_shape],
        "crop_pct": policy_for(trained.config.policy).center,  # type: ignore[union-attr]
        "interpolation": "bilinear",
        "mean": trained.encoder.mean.tolist(),
        "std": trained.encoder.std.tolist(),
        "num_classes": 0,
    }
    return {
        "architecture": name,
        "library_name": "timm",
        "num_classes": 0,
        "num_features": model.num_features,
        **({"model_args": arguments} if arguments else {}),
        "pretrained_cfg": {**prepared, **names},
    }
