"""Trained encoders, read back: from a run folder, a file of weights, or a checkpoint."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from care.models import Encoder, stem_of_weights
from care.objective import build_encoder
from care.objective.registry import find
from care.train.checkpoint import STATE, Checkpoint, load_weights
from care.train.checkpoint import load as load_checkpoint
from care.train.config import Config
from care.train.runs import EQUIVARIANCE, Run
from care.train.state_tree import unflatten_state

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Trained:
    """The content of `model.safetensors`: the frozen encoder, its configuration, and the shape of its input views.

    `exported` holds the tensors that the equivariance saved beside it.
    """

    encoder: Encoder
    config: Config
    input_shape: tuple[int, ...]
    exported: dict[str, Tensor] = field(default_factory=dict)

    @property
    def generators(self) -> Float[Tensor, "k m m"] | None:
        """A_k of R(θ) on the first m coordinates of the embedding, if they were trained with the encoder."""
        return self.exported.get("generators")


def load(run: str | Path) -> Encoder:
    """The trained encoder of a run folder, or of a `model.safetensors`, frozen: `care.load("runs/mine")(images)`."""
    return load_trained(Path(run)).encoder


def is_checkpoint(path: Path) -> bool:
    """Whether this is the folder of a checkpoint."""
    return (path / STATE).exists()


def run_name(path: Path) -> str:
    """The name of a run folder, of its checkpoint (mine-step-00000500), or of the run that a file of weights is in."""
    path = path.resolve()
    if is_checkpoint(path):
        return f"{path.parent.parent.name}-{path.name}"
    return path.name if path.is_dir() else path.parent.name


def load_trained(path: Path) -> Trained:
    """Load a run folder, a `model.safetensors`, or a checkpoint.

    The configuration is the one saved with the weights, not that of `config.toml`, which may have been edited.
    """
    if is_checkpoint(path):
        return _from_checkpoint(path)
    file = _weights_in(path)
    tensors, config, input_shape = _read(file)
    beside = [name for name in tensors if name.startswith(EQUIVARIANCE)]
    exported = {name.removeprefix(EQUIVARIANCE): tensors.pop(name) for name in beside}
    channels = {name: tuple(tensors[name].tolist()) for name in ("mean", "std") if name in tensors}
    return Trained(
        _filled(build_encoder(config, input_shape, **channels), tensors, file), config, input_shape, exported
    )


def load_config(path: Path) -> Config:
    """The configuration of what `load_trained` loads, without building the encoder."""
    return _config_of(load_checkpoint(path), path) if is_checkpoint(path) else _read(_weights_in(path))[1]


def _weights_in(path: Path) -> Path:
    """The file of weights in a run folder, or the file itself; ValueError if there is none."""
    file = Run(path).weights if path.is_dir() else path
    if not file.exists():
        folder, name = file.parent, Run(path).weights.name
        if file.name == name and folder.is_dir() and not (folder / "config.toml").exists():
            raise ValueError(f"{folder} is not the folder of a run")
        raise ValueError(f"{file} does not exist: has the run finished?")
    return file


def _read(file: Path) -> tuple[dict[str, Tensor], Config, tuple[int, ...]]:
    """The saved tensors, the configuration, and the shape of input views."""
    tensors, metadata = load_weights(file)
    if missing := [name for name in ("config", "source") if name not in metadata]:
        raise ValueError(f"{file} holds no encoder of care: its metadata lacks {' and '.join(missing)}")
    config = Config.from_toml(metadata["config"], str(file), unchecked=True)
    return tensors, _with_stem_of(config, tensors, metadata), tuple(json.loads(metadata["source"]))


def _with_stem_of(config: Config, tensors: dict[str, Tensor], about: Mapping[str, str]) -> Config:
    """The configuration with the stem of the saved weights, which may differ from what `auto` would choose today."""
    stem = stem_of_weights(_below("backbone.", tensors), about)
    return dataclasses.replace(config, stem=stem)  # type: ignore[arg-type]


def _config_of(saved: Checkpoint, folder: Path) -> Config:
    return Config.from_toml(saved.state["config"], str(folder), unchecked=True)


def _from_checkpoint(folder: Path) -> Trained:
    """The encoder of a checkpoint: its moving average, if there is one."""
    saved = load_checkpoint(folder)
    config = _config_of(saved, folder)
    parts, input_shape = unflatten_state(saved.tensors, saved.state["rest"]), tuple(saved.state["source"])
    kept: dict[str, Tensor] = parts["ema"] if parts["ema"] is not None else parts["objective"]
    encoder = _filled(build_encoder(config, input_shape), _below("encoder.", kept), folder)
    beside, exported = _below(EQUIVARIANCE, kept), {}
    equivariance = find("equivariance", config.equivariance.name) if beside else None
    if equivariance is not None:
        context = config.context(config.batch_size // config.accumulate)
        module = equivariance(config.equivariance.settings, encoder, context)
        exported = _filled(module, beside, folder).exported()
    return Trained(encoder, config, input_shape, exported)


def _filled(module: M, tensors: dict[str, Tensor], where: Path) -> M:
    """The module with these weights, frozen."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{where} does not fit its own configuration: {' '.join(str(error).split())}") from error
    return module.eval().requires_grad_(False)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
