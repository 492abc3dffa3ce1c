"""CARE: contrastive learning in which an augmentation of the input rotates the embedding.

`care.geometry`  bilinear forms, Wahba's problem, measures of equivariance
`care.losses`    InfoNCE, the equivariance loss, CARE, and other Siamese losses
`care.augment`   augmentations that are drawn, kept, applied and replayed
`care.measure`   how the embeddings of any model respond to augmentations
`care.load`      the encoder of a finished run
"""

from care import augment, geometry, losses
from care.evaluate import measure
from care.train import load

__version__ = "0.1.0"

__all__ = ["__version__", "augment", "geometry", "load", "losses", "measure"]
