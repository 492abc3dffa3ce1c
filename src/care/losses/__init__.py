"""The losses of the paper, and losses of other methods that can replace InfoNCE.

Each loss is a pure function of embeddings [n, d] and settings; most also come as an `nn.Module` of the same name that
stores the settings. No loss depends on process ranks, random state or the device. No loss makes the host wait for the
GPU, so non-finite values pass through and the training loop catches them. Inputs in bf16 or fp16 are computed in fp32,
even inside autocast. Losses on the sphere normalize their inputs first; unit vectors stay unchanged.
"""

from care.losses.barlow_twins import BarlowTwins, barlow_twins
from care.losses.dcl import DCL, dcl
from care.losses.duet import gaussian_bins, jensen_shannon, von_mises_bins
from care.losses.equivariance import Equivariance, equivariance, mean_weight
from care.losses.hard_negatives import HardNegatives, hard_negatives
from care.losses.info_nce import InfoNCE, info_nce
from care.losses.invariance import Invariance, invariance
from care.losses.leave_one_out import leave_one_out
from care.losses.linear_maps import linear_map, mapped
from care.losses.mocov3 import MoCoV3, mocov3
from care.losses.pairs import mean_over_pairs
from care.losses.parameters import parameter_difference
from care.losses.prediction import BYOL, SimSiam, byol, simsiam
from care.losses.quarter_turns import quarter_turns
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
from care.losses.vicreg import VICReg, off_diagonal_covariance, variance_hinge, vicreg

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
    "gaussian_bins",
    "hard_negatives",
    "info_nce",
    "invariance",
    "jensen_shannon",
    "leave_one_out",
    "linear_map",
    "mapped",
    "mean_over_pairs",
    "mean_weight",
    "mocov3",
    "off_diagonal_covariance",
    "orbit_uniformity",
    "parameter_difference",
    "quarter_turns",
    "queue_info_nce",
    "simsiam",
    "slice_uniformity",
    "steering",
    "uniformity",
    "variance_hinge",
    "vicreg",
    "von_mises_bins",
]
