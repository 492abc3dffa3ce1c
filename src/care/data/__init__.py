"""Data sets: generated, or read from image stores."""

from care.data.batches import batches, place
from care.data.chains import generate_chains
from care.data.registry import load
from care.data.samples import Samples
from care.data.shapes import generate_shapes
from care.data.store import open_store
from care.data.store_writer import write_store

__all__ = [
    "Samples",
    "batches",
    "generate_chains",
    "generate_shapes",
    "load",
    "open_store",
    "place",
    "write_store",
]
