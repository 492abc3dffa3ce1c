"""Anybody's model by name, to be measured like ours: runs, timm's models, TorchScript and ONNX files."""

from care.subjects.load import load_subject
from care.subjects.outputs import only, steerable, whole
from care.subjects.study import run_study
from care.subjects.subject import Subject

__all__ = ["Subject", "load_subject", "only", "run_study", "steerable", "whole"]
