"""Encoders."""

from care.models.deepset import DeepSet

__all__ = ["DeepSet"]
