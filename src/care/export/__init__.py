"""Export a trained encoder to other programs, with a model card."""

from typing import TYPE_CHECKING, Any

from care.export.places import FILES, check_model, place_for

if TYPE_CHECKING:
    from care.export.formats import export

__all__ = ["FILES", "check_model", "export", "place_for"]


def __getattr__(name: str) -> Any:
    """Import `export` on first use: mistakes are told before torch is imported."""
    if name != "export":
        raise AttributeError(f"module 'care.export' has no attribute {name!r}")
    from care.export.formats import export

    return export
