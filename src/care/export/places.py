"""Where an exported encoder is written, and what cannot be exported: known before torch is imported."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Literal

from safetensors import safe_open

Format = Literal["timm", "huggingface", "onnx", "torchscript"]
FILES = {
    "timm": "backbone.safetensors",
    "huggingface": "huggingface",
    "onnx": "encoder.onnx",
    "torchscript": "encoder.pt",
}
ENDINGS = {"timm": (".safetensors",), "onnx": (".onnx",), "torchscript": (".pt", ".ts", ".torchscript")}  # as read
OF_TIMM, NOT_OF_TIMM = ("timm", "huggingface"), ("small_resnet", "deepset")  # formats, and models


def place_for(run: Path, to: str, out: str | Path | None = None) -> Path:
    """Where to write: `out`, or the run folder.

    ValueError for an unknown format, an ending with which the file would not be read, or a folder that exists.
    """
    if to not in FILES:
        raise ValueError(f"`to` must be one of {', '.join(FILES)}, got {to}")
    file = Path(out) if out else (run if run.is_dir() else run.parent) / FILES[to]
    if to == "huggingface" and file.exists():
        raise ValueError(f"{file} exists: remove it, or choose another `out`")
    if to in ENDINGS and file.suffix not in ENDINGS[to] and not file.is_dir():
        raise ValueError(f"{file} would not be read as {to}: choose an `out` that ends in {' or '.join(ENDINGS[to])}")
    return file


def check_model(run: Path, to: str) -> None:
    """ValueError if timm does not build the model of the run, as far as the name of the model tells."""
    if to in OF_TIMM and (name := _model_of(run)) in NOT_OF_TIMM:
        raise ValueError(f"timm does not build {name} at all: use `to` onnx or torchscript")


def _model_of(run: Path) -> str | None:
    """The model that is named beside the weights; None if that cannot be read, which loading them reports."""
    file = run / "model.safetensors" if run.is_dir() else run
    with suppress(Exception), safe_open(file, framework="np") as opened:
        return str(tomllib.loads(opened.metadata()["config"])["model"])
    return None
