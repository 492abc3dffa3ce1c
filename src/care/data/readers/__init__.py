"""Readers of data sets in their published formats, one example after the other."""

from care.data.readers.cifar import read_cifar10, read_cifar100
from care.data.readers.few import read_few
from care.data.readers.flowers import read_flowers
from care.data.readers.folder import folder_splits, read_folder
from care.data.readers.source import DataSource, Example, Unreadable
from care.data.readers.stl10 import read_stl10

__all__ = [
    "DataSource",
    "Example",
    "Unreadable",
    "folder_splits",
    "read_cifar10",
    "read_cifar100",
    "read_few",
    "read_flowers",
    "read_folder",
    "read_stl10",
]
