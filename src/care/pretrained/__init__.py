"""Anybody's model by name, to be measured like ours: runs, timm's models, TorchScript and ONNX files."""

from care.pretrained.load import load_pretrained
from care.pretrained.model import PretrainedModel
from care.pretrained.outputs import only, steerable, whole
from care.pretrained.study import run_study

__all__ = ["PretrainedModel", "load_pretrained", "only", "run_study", "steerable", "whole"]
