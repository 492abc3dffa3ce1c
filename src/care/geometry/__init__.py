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
    heldout_ratio,
    ratio_left,
    relative_equivariance,
    relative_error,
    squared_error,
    symplectic_strength,
    unexplained,
)
from care.geometry.population import InnerProducts, best_inner_products, squared_wahba
from care.geometry.source import POINTS_PER_DIRECTION, Source, leading_directions, source_of
from care.geometry.wahba import solve_wahba, wahba_error

__all__ = [
    "POINTS_PER_DIRECTION",
    "BilinearForm",
    "Euclidean",
    "Group",
    "InnerProducts",
    "Minkowski",
    "Principal",
    "Source",
    "Symplectic",
    "alignment",
    "best_inner_products",
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
    "heldout_ratio",
    "leading_directions",
    "principal_axes",
    "rankme",
    "ratio_left",
    "relative_equivariance",
    "relative_error",
    "skew",
    "solve_wahba",
    "source_of",
    "spectrum",
    "squared_error",
    "squared_wahba",
    "symplectic_strength",
    "unexplained",
    "wahba_error",
]
