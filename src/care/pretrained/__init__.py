"""Pretrained models by name: runs of `care train`, timm's models, TorchScript and ONNX files."""

from care.models.local_folder import is_timm_folder
from care.pretrained.load import load_pretrained
from care.pretrained.model import PretrainedModel
from care.pretrained.run_setup import run_setup

__all__ = ["PretrainedModel", "is_timm_folder", "load_pretrained", "run_setup"]
