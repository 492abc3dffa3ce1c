"""The rotation of an augmentation as a function of its parameters: R(θ) = exp(Σ_k θ_k A_k) with skew generators A_k.

rotation = care.steer.load("runs/mine/steering/rotation.safetensors")
rotation.rotate(z, augmentation)          # predicts f(a(x)) from z = f(x)
rotation.canonicalize(z, augmentation)    # predicts f(x) from z = f(a(x))
"""

from care.steer.canonical import Canonicalized, canonicalized_families, measure_canonicalization
from care.steer.families import steered_families
from care.steer.fit_statistics import FitStatistics, statistics_of
from care.steer.fitting import COLOR_PRODUCTS, fit_rotation
from care.steer.learned_rotation import LearnedRotation, load, save
from care.steer.measuring import measure_rotations
from care.steer.predictor import fit_predictor
from care.steer.query import Query, retrieve
from care.steer.result import FamilyResult, PooledRatio
from care.steer.retrieved import RetrievalResult, rotation_caveats
from care.steer.retrieving import (
    augmentation_of,
    draw_queries,
    embed_database,
    search,
    steered_retrieval,
)
from care.steer.steering import Steered, steer_embeddings

__all__ = [
    "COLOR_PRODUCTS",
    "Canonicalized",
    "FamilyResult",
    "FitStatistics",
    "LearnedRotation",
    "PooledRatio",
    "Query",
    "RetrievalResult",
    "Steered",
    "augmentation_of",
    "canonicalized_families",
    "draw_queries",
    "embed_database",
    "fit_predictor",
    "fit_rotation",
    "load",
    "measure_canonicalization",
    "measure_rotations",
    "retrieve",
    "rotation_caveats",
    "save",
    "search",
    "statistics_of",
    "steer_embeddings",
    "steered_families",
    "steered_retrieval",
]
