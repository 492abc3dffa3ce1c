"""CARE: contrastive learning in which an augmentation of the input rotates the embedding.

`care.geometry`  bilinear forms, Wahba's problem, measures of equivariance
`care.losses`    InfoNCE, the equivariance loss, and the losses of other methods
`care.objective` the base classes of methods, also for a method of your own
`care.augment`   augmentations that are drawn, stored, applied and replayed
`care.measure`   measure how the embeddings of any model respond to augmentations
`care.pretrain`  train an encoder on pictures
`care.load`      the encoder of a finished run
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from care import augment, geometry, losses
    from care.evaluate.effects.measure import measure
    from care.pretraining import pretrain
    from care.train import load

__version__ = "0.1.0"

__all__ = ["__version__", "augment", "geometry", "load", "losses", "measure", "pretrain"]


def __getattr__(name: str) -> Any:
    """Import the names in `__all__` on first use, so that `care --help` does not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'care' has no attribute {name!r}")
    offered = {"measure": "care.evaluate", "load": "care.train", "pretrain": "care.pretraining"}
    found = getattr(import_module(offered[name]), name) if name in offered else import_module(f"care.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
