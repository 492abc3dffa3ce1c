"""The losses of the paper, and losses of other methods that can replace InfoNCE.

Each loss is a pure function of embeddings [n, d] and settings. No loss depends on process ranks, random state or the
device. No loss makes the host wait for the GPU, so non-finite values pass through and the training loop catches them.
Inputs in bf16 or fp16 are computed in fp32, even inside autocast. Losses on the sphere normalize their inputs first;
unit vectors stay unchanged.
"""

from care.losses.barlow_twins import barlow_twins
from care.losses.dcl import dcl
from care.losses.duet import gaussian_bins, jensen_shannon, von_mises_bins
from care.losses.equivariance import equivariance, mean_weight
from care.losses.hard_negatives import hard_negatives
from care.losses.info_nce import info_nce
from care.losses.invariance import invariance
from care.losses.leave_one_out import leave_one_out
from care.losses.linear_maps import linear_map, mapped
from care.losses.mocov3 import mocov3
from care.losses.pairs import mean_over_pairs
from care.losses.parameters import parameter_difference
from care.losses.prediction import byol, simsiam
from care.losses.quarter_turns import quarter_turns
from care.losses.queue import queue_info_nce
from care.losses.steering import steering
from care.losses.uniformity import orbit_uniformity, slice_uniformity, uniformity
from care.losses.vicreg import off_diagonal_covariance, variance_hinge, vicreg

__all__ = [
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
