"""Anybody's model by name, to be measured like ours: runs, timm's models, TorchScript and ONNX files."""

import contextlib
import difflib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor, nn

from care.models import Encoder, small_stem
from care.train import load
from care.train.checkpoint import load_weights

Channels = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation

FORMS = "a run folder, timm/NAME, timm/NAME@random, timm/NAME@FILE.safetensors, or a TorchScript or ONNX file"
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to measure: images in [0, 1], or point clouds, to vectors.

    `outputs` names the vectors: "head" and "backbone" of our runs, "features" of all other models. `size` is the side
    in pixels that it wants its images in, None if it does not say.
    """

    name: str
    encoder: Encoder
    size: int | None = None
    outputs: tuple[str, ...] = ("features",)
    _found_finite: set[str] = field(default_factory=set, init=False, repr=False)

    @torch.no_grad()
    def embed(self, inputs: Float[Tensor, "n ..."]) -> dict[str, Float[Tensor, "n _"]]:
        """All outputs in one pass, in float32. ValueError if they are no vectors, or the first ones are not finite."""
        features: Any = self.encoder.features(inputs)
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if not isinstance(shape, list) or len(shape) != 2 or shape[0] != len(inputs):
            raise ValueError(f"{self.name} gives {shape} for {len(inputs)} inputs: export its pooled features [n, d]")
        vectors = (self.encoder.head(features), features) if len(self.outputs) == 2 else (features,)
        found = {name: output.float() for name, output in zip(self.outputs, vectors, strict=True)}
        if not self._found_finite:  # looked at once: the host waits for the GPU then
            if not all(output.isfinite().all() for output in found.values()):
                raise ValueError(f"{self.name} gives numbers that are not finite: is its normalization what it needs?")
            self._found_finite.update(self.outputs)
        return found

    def to(self, device: torch.device | str) -> "Subject":
        """Move the model to where the inputs will be, in place as torch does. What runs an ONNX file stays."""
        self.encoder.to(device)
        if torch.device(device).type == "cuda" and not isinstance(self.encoder.backbone, torch.jit.ScriptModule):
            self.encoder.to(memory_format=torch.channels_last)  # what convolutions are fastest in
        return self

    @property
    def normalization(self) -> str:
        """What is done to the images first, in words."""
        mean, std = (", ".join(f"{x:.3g}" for x in buffer.tolist()) for buffer in (self.encoder.mean, self.encoder.std))
        return "none" if (mean, std) == ("0, 0, 0", "1, 1, 1") else f"mean {mean}; std {std}"


def load_subject(what: str, mean: Sequence[float] | None = None, std: Sequence[float] | None = None) -> Subject:
    """The model that `what` names, frozen, on the CPU.

    `runs/mine`               a run of ours, or its `model.safetensors`
    `timm/resnet50.a1_in1k`   a model of timm with published weights; also `timm/hf-hub:ORG/NAME`
    `timm/resnet18@random`    a model of timm with random weights, always the same
    `timm/resnet18@FILE`      a model of timm with the weights of a `.safetensors`, such as `care export` writes
    `FILE.pt`, `FILE.onnx`    TorchScript (also `.ts`, `.torchscript`) and ONNX

    Images in [0, 1] are normalized by `mean` and `std`. Without these, a model of timm gets timm's (what a run exported
    needs is in its `encoder.mean` and `encoder.std`), TorchScript and ONNX none (as `care export` writes them).
    """
    channels, path = _channels(mean, std), Path(what)
    if what.startswith("timm/"):
        return _timm_subject(what.removeprefix("timm/"), channels)
    if not path.exists():
        raise ValueError(f"{what} does not exist; a model is {FORMS}")
    if path.is_dir() or path.suffix == ".safetensors":
        return _run_subject(path, channels)
    if path.suffix in (".pt", ".ts", ".torchscript"):
        return _subject(path.stem, _read_torchscript(path), None, channels)
    if path.suffix == ".onnx":
        model = OnnxModel(path)
        return _subject(path.stem, model, model.size, channels)
    raise ValueError(f"{what} cannot be read; a model is {FORMS}")


def _channels(mean: Sequence[float] | None, std: Sequence[float] | None) -> Channels | None:
    if mean is not None and std is not None and len(mean) == len(std) == 3 and min(std) > 0:
        return mean, std
    if mean is None and std is None:
        return None
    raise ValueError(f"mean and std must be three numbers each, those of std positive, got {mean} and {std}")


def _subject(name: str, model: nn.Module, size: int | None, channels: Channels | None) -> Subject:
    mean, std = channels or ((0.0,) * 3, (1.0,) * 3)
    encoder = Encoder(model, nn.Identity(), tuple(map(float, mean)), tuple(map(float, std)))
    return Subject(name, encoder.eval().requires_grad_(False), size)


def _run_subject(path: Path, channels: Channels | None) -> Subject:
    if channels:
        raise ValueError(f"{path} is a run, which normalizes images as it was trained to: leave out mean and std")
    file = path / "model.safetensors" if path.is_dir() else path
    try:
        encoder, source = load(file), json.loads(load_weights(file)[1]["source"])
    except ValueError as error:
        hint = "" if path.is_dir() else f"; weights of a model of timm are given as timm/NAME@{path}"
        raise ValueError(f"{error}{hint}") from error
    return Subject(file.resolve().parent.name, encoder, source[0] if len(source) == 2 else None, ("head", "backbone"))


def _read_torchscript(file: Path) -> nn.Module:
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated in torch, and still what some have
        try:
            return torch.jit.load(str(file), map_location="cpu")
        except RuntimeError as error:
            raise ValueError(
                f"{file} is not TorchScript; a pickled checkpoint is not read, for it can run code: save the model by "
                "torch.jit.trace(model, images).save(FILE), or the weights of a timm model as .safetensors"
            ) from error


class OnnxModel(nn.Module):
    """An ONNX file as a function of tensors on any device. It runs on the CPU, or by onnxruntime-gpu on the GPU."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        try:
            import onnxruntime

            providers = [name for name in onnxruntime.get_available_providers() if name in PROVIDERS]
            self.session = onnxruntime.InferenceSession(str(file), providers=providers)
        except ImportError as error:
            raise ValueError(f"{file} needs onnxruntime: install care-ssl[onnx]") from error
        except Exception as error:  # the errors of onnxruntime have no other class in common
            raise ValueError(f"{file} cannot be run by onnxruntime: {_line(error)}") from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        n, *shape = [size if isinstance(size, int) else None for size in inputs[0].shape]  # what is left open is named
        images = len(shape) == 3 and shape[0] in (3, None) and shape[1] == shape[2]
        if len(inputs) > 1 or len(outputs) > 1 or inputs[0].type != "tensor(float)" or not (images or len(shape) == 2):
            raise ValueError(f"{file} must take one float32 input, square images [n, 3, h, h], and give one output")
        self.name, self.batch, self.size = inputs[0].name, n, shape[-1] if images else None

    def forward(self, inputs: Tensor) -> Tensor:
        """The output for any number of inputs: where the file fixes that number, the last ones are filled up."""
        if self.size is not None and inputs.shape[2:] != (self.size, self.size):
            raise ValueError(f"the ONNX model takes images of {self.size} pixels, got {list(inputs.shape[2:])}")
        batch = self.batch or max(1, len(inputs))
        filled = torch.cat([inputs, inputs[-1:].expand(-len(inputs) % batch, *inputs.shape[1:])]).float().cpu()
        parts = [self.session.run(None, {self.name: part.numpy()})[0] for part in filled.split(batch)]
        return torch.cat([torch.from_numpy(part) for part in parts])[: len(inputs)].to(inputs.device)


def _timm_subject(name: str, channels: Channels | None) -> Subject:
    from timm.data.config import resolve_model_data_config

    architecture, _, weights = name.partition("@")
    if ":" in architecture:  # the name of a hub, where @ is for a revision
        architecture, weights = name, ""
    with torch.random.fork_rng(devices=[]):  # random weights are always the same, and change nobody's random numbers
        torch.default_generator.manual_seed(0)
        model = _create(architecture, pretrained=not weights)
    config = resolve_model_data_config(model)
    label = f"{architecture}@{Path(weights).stem}" if weights else architecture
    small = weights not in ("", "random") and _fill(model, Path(weights))
    size = None if small else config["input_size"][-1]
    return _subject(label, model, size, channels or (config["mean"], config["std"]))


def _create(name: str, pretrained: bool) -> nn.Module:
    import timm

    hub = name.partition("hf-hub:")[2] if ":" in name else _check_name(name, pretrained)
    try:
        if pretrained:
            _ask_hub(hub)
        return timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # of timm, of the hub's client, or of what that uses for the network
        raise ValueError(
            f"the weights of timm/{name} cannot be had: {_line(error)}. Download them elsewhere and pass timm/NAME@FILE"
            ".safetensors, or copy the Hugging Face cache of a machine that has them and set HF_HOME to it."
        ) from error


def _check_name(name: str, pretrained: bool) -> str:
    """The hub's name for the weights of a model of timm; ValueError suggests names where there is no such model."""
    import timm.models

    bare, _, tag = name.partition(".")
    if not timm.is_model(bare):
        close = difflib.get_close_matches(bare, timm.list_models(), 3) or timm.list_models(f"*{bare}*")[:3]
        raise ValueError(f"timm has no model {bare!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    tags = timm.list_pretrained(f"{bare}.*")
    if (tag and name not in tags) or (pretrained and not tags):
        others = f"there are {', '.join(tags)}" if tags else f"timm/{bare}@random has random ones"
        raise ValueError(f"timm has no weights {name!r}; {others}")
    return getattr(timm.models.get_pretrained_cfg(name), "hf_hub_id", None) or ""


def _ask_hub(name: str) -> None:
    """Raise at once if the hub does not answer and nothing is in its cache: its client would try for a minute."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    constants.HF_HUB_DISABLE_TELEMETRY = True
    repository, _, revision = name.partition("@")
    cached = Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}", "snapshots")
    if name and not any(cached.glob("*/*")):
        with contextlib.suppress(EntryNotFoundError):  # an answer, too
            get_hf_file_metadata(hf_hub_url(repository, "config.json", revision=revision or None), timeout=5)


def _fill(model: nn.Module, file: Path) -> bool:
    """Load all weights but the classifier's; returns whether the stem was made one for small images to fit them."""
    import timm.models

    if file.suffix != ".safetensors" or not file.is_file():
        raise ValueError(f"{file} is no .safetensors file: after the @ comes one with the weights, or random")
    try:
        state = timm.models.load_state_dict(str(file))
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {_line(error)}") from error
    names = model.pretrained_cfg.get("classifier") or ()  # type: ignore[operator, union-attr]
    classifiers = tuple(f"{name}." for name in ((names,) if isinstance(names, str) else names))
    state = {name: tensor for name, tensor in state.items() if not name.startswith(classifiers)}
    kernels = [every["conv1.weight"].shape[2:] for every in (state, model.state_dict()) if "conv1.weight" in every]
    small = kernels == [(3, 3), (7, 7)]
    if small:
        small_stem(model)
    given, wanted = ({name: [*x.shape] for name, x in every.items()} for every in (state, model.state_dict()))
    wrong = [f"{k} should be {v} and is {given.get(k, 'missing')}" for k, v in wanted.items() if given.get(k) != v]
    wrong += [f"{name} is not in the model" for name in given if name not in wanted]
    if wrong:
        raise ValueError(f"{file} does not fit the model, by {len(wrong)} weights: {wrong[0]}")
    model.load_state_dict(state)
    return small


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
