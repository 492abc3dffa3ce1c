"""Export a trained encoder to other programs, with a model card."""

from care.export.formats import FILES, export, place_for

__all__ = ["FILES", "export", "place_for"]
