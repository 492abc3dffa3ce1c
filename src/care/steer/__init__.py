"""The rotation of an augmentation, known without solving for it: R(θ) = exp(Σ_k θ_k A_k).

steering = care.steer.load("runs/mine/steering/steering.safetensors")
steering.turn(z, augmentation)            # where f(a(x)) should be, from z = f(x)
steering.canonicalize(z, augmentation)    # and back
"""

from care.steer.coordinates import coordinate_names, coordinates
from care.steer.evidence import Evidence, gather
from care.steer.families import steered_families
from care.steer.fitting import fit_steering
from care.steer.measuring import measure_steering
from care.steer.predictor import Predictor, fit_predictor
from care.steer.result import Steered, SteeringResult
from care.steer.steering import Steering, load, save

__all__ = [
    "Evidence",
    "Predictor",
    "Steered",
    "Steering",
    "SteeringResult",
    "coordinate_names",
    "coordinates",
    "fit_predictor",
    "fit_steering",
    "gather",
    "load",
    "measure_steering",
    "save",
    "steered_families",
]
