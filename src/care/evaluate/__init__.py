"""Measurements of trained encoders."""

from care.evaluate.knn import knn_predict

__all__ = ["knn_predict"]
