"""The geometry of the paper: bilinear forms, rotations recovered from points, and measures of equivariance.

Everything here is a pure function of tensors. Points are rows: `F` is [n, d], `F[i]` is f(x_i), and `F_a[i]` is
f(a(x_i)), so that "a acts as the rotation R" reads `F_a == F @ R.T`.
"""

from care.geometry.collapse import alignment, effective_rank, gaussian_uniformity, rankme, spectrum
from care.geometry.crossfit import Principal, crossfit_linear, crossfit_predictions, crossfit_rotations, principal_axes
from care.geometry.exponential import exponential, skew
from care.geometry.forms import BilinearForm, Euclidean, Group, Minkowski, Symplectic, form_named, form_of
from care.geometry.harmonics import harmonic_blocks
from care.geometry.measures import (
    composition_error,
    displacement,
    gram_error,
    heldout_linear_ratio,
    heldout_ratio,
    one_minus_r2,
    relative_equivariance,
    symplectic_strength,
)
from care.geometry.wahba import solve_wahba, wahba_error

__all__ = [
    "BilinearForm",
    "Euclidean",
    "Group",
    "Minkowski",
    "Principal",
    "Symplectic",
    "alignment",
    "composition_error",
    "crossfit_linear",
    "crossfit_predictions",
    "crossfit_rotations",
    "displacement",
    "effective_rank",
    "exponential",
    "form_named",
    "form_of",
    "gaussian_uniformity",
    "gram_error",
    "harmonic_blocks",
    "heldout_linear_ratio",
    "heldout_ratio",
    "one_minus_r2",
    "principal_axes",
    "rankme",
    "relative_equivariance",
    "skew",
    "solve_wahba",
    "spectrum",
    "symplectic_strength",
    "wahba_error",
]
