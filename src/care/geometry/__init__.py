"""The geometry of the paper: bilinear forms, rotations recovered from points, and measures of equivariance.

Everything here is a pure function of tensors. Points are rows: `F` is [n, d], `F[i]` is f(x_i), and `F_a[i]` is
f(a(x_i)), so that "a acts as the rotation R" reads `F_a == F @ R.T`.
"""

from care.geometry.crossfit import Principal, crossfit_linear, crossfit_predictions, crossfit_rotations, principal_axes
from care.geometry.exponential import exponential, skew
from care.geometry.forms import BilinearForm, Euclidean, Group, Minkowski, Symplectic, form_named, form_of
from care.geometry.harmonics import harmonic_blocks, harmonic_generators
from care.geometry.measures import (
    composition_error,
    displacement,
    gram_defect,
    heldout_linear_ratio,
    heldout_ratio,
    relative_equivariance,
    symplectic_strength,
    unexplained_variance,
)
from care.geometry.wahba import solve_wahba, wahba_error

__all__ = [
    "BilinearForm",
    "Euclidean",
    "Group",
    "Minkowski",
    "Principal",
    "Symplectic",
    "composition_error",
    "crossfit_linear",
    "crossfit_predictions",
    "crossfit_rotations",
    "displacement",
    "exponential",
    "form_named",
    "form_of",
    "gram_defect",
    "harmonic_blocks",
    "harmonic_generators",
    "heldout_linear_ratio",
    "heldout_ratio",
    "principal_axes",
    "relative_equivariance",
    "skew",
    "solve_wahba",
    "symplectic_strength",
    "unexplained_variance",
    "wahba_error",
]
