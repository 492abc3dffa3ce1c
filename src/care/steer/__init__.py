"""The rotation of an augmentation, known without solving for it: R(θ) = exp(Σ_k θ_k A_k).

steering = care.steer.load("runs/mine/steering/steering.safetensors")
steering.turn(z, augmentation)            # where f(a(x)) should be, from z = f(x)
steering.canonicalize(z, augmentation)    # and back
"""

from care.steer.canonical import Canonicalized, Reading, measure_canonical, undone_families
from care.steer.evidence import Evidence, gather
from care.steer.families import steered_families
from care.steer.fitting import COLOR_PRODUCTS, fit_steering
from care.steer.measuring import measure_steering
from care.steer.predictor import Predictor, fit_predictor
from care.steer.result import Steered, SteeringResult, Unexplained
from care.steer.retrieved import RetrievalResult, notes_on
from care.steer.retrieving import (
    Bank,
    SteeredRetrieval,
    ask,
    augmentation_of,
    bank_of,
    some_rows,
    steered_retrieval,
)
from care.steer.steering import Steering, load, save

__all__ = [
    "COLOR_PRODUCTS",
    "Bank",
    "Canonicalized",
    "Evidence",
    "Predictor",
    "Reading",
    "RetrievalResult",
    "Steered",
    "SteeredRetrieval",
    "Steering",
    "SteeringResult",
    "Unexplained",
    "ask",
    "augmentation_of",
    "bank_of",
    "fit_predictor",
    "fit_steering",
    "gather",
    "load",
    "measure_canonical",
    "measure_steering",
    "notes_on",
    "save",
    "some_rows",
    "steered_families",
    "steered_retrieval",
    "undone_families",
]
