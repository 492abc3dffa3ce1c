"""Pretrained models by name: runs of `care train`, timm's models, TorchScript and ONNX files."""

from care.pretrained.load import load_pretrained
from care.pretrained.model import PretrainedModel
from care.pretrained.run_setup import run_setup

__all__ = ["PretrainedModel", "load_pretrained", "run_setup"]
