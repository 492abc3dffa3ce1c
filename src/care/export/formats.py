"""Export a trained encoder to timm, Hugging Face, ONNX or TorchScript, if the exported encoder computes the same."""

import importlib.util
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import timm.models
import torch
from jaxtyping import Float
from safetensors.torch import save
from timm import is_model
from torch import Tensor, nn

from care.atomic_files import writing_atomically
from care.export.huggingface import write_huggingface
from care.export.places import Format, check_model, place_for
from care.models import Encoder, Features, build_backbone, stem_of
from care.train.trained import load_trained

# The largest relative difference of the features. Summing in another order, as other programs do, stays below it.
TOLERANCE = 1e-4


def export(run: str | Path, to: Format, out: str | Path | None = None) -> tuple[Path, float]:
    """Write the encoder of a finished run in the format `to`; returns (file, ‖f − f_exported‖ / ‖f‖ on four inputs).

    "timm":        the backbone's weights under timm's names, as safetensors; its metadata hold the "mean" and "std"
                   that normalize images in [0, 1], the "size" of the training views, and a ResNet's "stem"
    "huggingface": a folder that `timm.create_model("local-dir:FOLDER", pretrained=True)` loads and that can be uploaded
                   to the Hugging Face hub: the same weights, how to use them, and a model card
    "onnx":        the features of images in [0, 1], for any batch size
    "torchscript": the same
    """
    file = place_for(Path(run), to, out)
    check_model(Path(run), to)
    trained = load_trained(Path(run))
    if to == "timm" and not is_model(trained.config.model):
        raise ValueError(f"timm does not build {trained.config.model} at all: use `to` onnx or torchscript")
    encoder, config, input_shape = trained.encoder, trained.config, trained.input_shape
    shape = (*input_shape, 3) if len(input_shape) == 1 else (3, *input_shape)
    example = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    with writing_atomically(file) as temporary:
        if to == "timm":
            exported = _write_timm(encoder, temporary, config.model, input_shape)
        elif to == "huggingface":
            exported = write_huggingface(Path(run), trained, temporary)
        else:
            write = {"onnx": _write_onnx, "torchscript": _write_torchscript}[to]
            exported = write(Features(encoder), temporary, example)
        difference = _difference(encoder.features(example), exported(example))
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"the exported encoder differs from the original by {difference:.1e}: no file is written"
            )
    return file, difference


def _write_timm(encoder: Encoder, file: Path, model: str, input_shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    state = {name: tensor.contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    about = {"model": model, "size": input_shape[0], "mean": encoder.mean.tolist(), "std": encoder.std.tolist()}
    stem = stem_of(encoder.backbone)
    file.write_bytes(save(state, {"stem": stem, **{name: json.dumps(value) for name, value in about.items()}}))
    backbone, _ = build_backbone(model, input_shape, stem)
    timm.models.load_checkpoint(backbone, str(file))
    fresh = Encoder(backbone.eval(), nn.Identity(), tuple(encoder.mean.tolist()), tuple(encoder.std.tolist()))
    return fresh.features


def _write_torchscript(features: Features, file: Path, example: Tensor) -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated in torch, but still in use
        torch.jit.trace(features, example).save(str(file))
        return torch.jit.load(str(file))


def _write_onnx(features: Features, file: Path, example: Tensor) -> Callable[[Tensor], Tensor]:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"exporting to ONNX needs {', '.join(missing)}: install care-ssl[onnx]")
    import onnxruntime

    with warnings.catch_warnings(action="ignore"):  # the exporter warns about itself
        shapes = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(
            features, (example,), str(file), dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False
        )
    session = onnxruntime.InferenceSession(str(file))
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


def _difference(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"]) -> float:
    return ((a - b).norm() / a.norm()).item()
