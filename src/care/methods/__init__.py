"""Methods: SimCLR, MoCo-v2, Barlow Twins, VICReg, BYOL, SimSiam, each with CARE's equivariance loss on top."""

from care.methods.build import build_encoder, build_method, policy_for
from care.methods.generators import Generators, generators_for
from care.methods.method import Method
from care.methods.moco import MoCo
from care.methods.predictive import Predictive
from care.methods.settings import MethodSettings
from care.methods.views import View, ViewPlan, chunked_views, four_views, two_views

__all__ = [
    "Generators",
    "Method",
    "MethodSettings",
    "MoCo",
    "Predictive",
    "View",
    "ViewPlan",
    "build_encoder",
    "build_method",
    "chunked_views",
    "four_views",
    "generators_for",
    "policy_for",
    "two_views",
]
