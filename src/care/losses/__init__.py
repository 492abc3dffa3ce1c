"""The losses of the paper, and those of other methods that can stand in for InfoNCE.

Each loss is a pure function of embeddings [n, d] and settings, and an `nn.Module` of the same name that keeps the
settings. They know no ranks, no random state and no device; they never make the host wait for the GPU, so values that
are not finite pass through for the training loop to catch. Inputs in bf16 or fp16 are computed in fp32, also inside
autocast. Losses of the sphere put their inputs on the sphere first; points already there do not move.
"""

from care.losses.barlow_twins import BarlowTwins, barlow_twins
from care.losses.dcl import DCL, dcl
from care.losses.equivariance import Equivariance, equivariance, mean_weight
from care.losses.hard_negatives import HardNegatives, hard_negatives
from care.losses.info_nce import InfoNCE, info_nce
from care.losses.invariance import Invariance, invariance
from care.losses.mocov3 import MoCoV3, mocov3
from care.losses.pairs import mean_over_pairs
from care.losses.prediction import BYOL, SimSiam, byol, simsiam
from care.losses.queue import QueueInfoNCE, queue_info_nce
from care.losses.steering import steering
from care.losses.uniformity import (
    OrbitUniformity,
    SliceUniformity,
    Uniformity,
    orbit_uniformity,
    slice_uniformity,
    uniformity,
)
from care.losses.vicreg import VICReg, vicreg

__all__ = [
    "BYOL",
    "DCL",
    "BarlowTwins",
    "Equivariance",
    "HardNegatives",
    "InfoNCE",
    "Invariance",
    "MoCoV3",
    "OrbitUniformity",
    "QueueInfoNCE",
    "SimSiam",
    "SliceUniformity",
    "Uniformity",
    "VICReg",
    "barlow_twins",
    "byol",
    "dcl",
    "equivariance",
    "hard_negatives",
    "info_nce",
    "invariance",
    "mean_over_pairs",
    "mean_weight",
    "mocov3",
    "orbit_uniformity",
    "queue_info_nce",
    "simsiam",
    "slice_uniformity",
    "steering",
    "uniformity",
    "vicreg",
]
