"""Ridge regression with the penalty of least leave-one-out error, and its R² on other rows.

R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)² on rows that were not fitted: 1 is exact, 0 is what predicting the mean ȳ gives. A fit
to noise can come out slightly below 0; it is reported as it is. NaN means that the target is constant in these rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

# Features are standardized, so penalties count rows: the range goes from nearly none to one that leaves only the mean.
PENALTIES = tuple(10 ** (exponent / 2) for exponent in range(-4, 15))


@dataclass(frozen=True, eq=False)
class Ridge:
    """ŷ = ((x − mean) / scale) · weights + intercept, with the penalty that was chosen for each target."""

    mean: Float[Tensor, " f"]
    scale: Float[Tensor, " f"]
    weights: Float[Tensor, "f t"]
    intercept: Float[Tensor, " t"]
    penalty: Float[Tensor, " t"]

    def predict(self, X: Float[Tensor, "m f"]) -> Float[Tensor, "m t"]:
        """The predicted targets, in float64."""
        return (X.double() - self.mean) / self.scale @ self.weights + self.intercept


def fit_ridge(X: Float[Tensor, "n f"], Y: Float[Tensor, "n t"], penalties: Sequence[float] = PENALTIES) -> Ridge:
    """argmin_w ‖Y − ȳ − Z w‖² + λ ‖w‖² for the standardized features Z, with the λ of least leave-one-out error.

    With Z Zᵀ = U S Uᵀ, one decomposition for all penalties: the fit is Ŷ = ȳ + U S/(S + λ) Uᵀ Y, the error made for row
    i without fitting it is (y_i − ŷ_i) / (1 − h_i) with h_i = 1/n + Σ_k U_ik² S_k/(S_k + λ), and
    w = Zᵀ U 1/(S + λ) Uᵀ Y. Everything in float64.
    """
    _check_regression(X, Y, penalties)
    X, Y = X.double(), Y.double()
    mean, scale = X.mean(0), X.std(0, correction=0)
    scale = torch.where(scale > 0, scale, 1)
    Z = (X - mean) / scale
    U, S = _left_singular(Z)
    centered = Y - Y.mean(0)
    lambdas = torch.tensor(penalties, dtype=torch.float64, device=X.device)
    error = torch.stack([_leave_one_out_error(U, S, centered, penalty) for penalty in lambdas])
    penalty = lambdas[error.argmin(0)]
    weights = Z.mT @ (U @ (U.mT @ centered / (S[:, None] + penalty)))
    return Ridge(mean, scale, weights, Y.mean(0), penalty)


def ridge_r2(
    train_X: Float[Tensor, "n f"],
    train_Y: Float[Tensor, "n t"],
    test_X: Float[Tensor, "m f"],
    test_Y: Float[Tensor, "m t"],
    penalties: Sequence[float] = PENALTIES,
) -> Float[Tensor, " t"]:
    """R² on the test rows of each target column, regressed by `fit_ridge` on the training rows."""
    return coefficient_of_determination(
        *squared_errors(test_Y.double(), fit_ridge(train_X, train_Y, penalties).predict(test_X))
    )


def _left_singular(Z: Float[Tensor, "n f"]) -> tuple[Float[Tensor, "n r"], Float[Tensor, " r"]]:
    """U and S of Z Zᵀ = U S Uᵀ, from the smaller of Z Zᵀ and Zᵀ Z = V S Vᵀ, where U = Z V S^(−½)."""
    n, f = Z.shape
    S, vectors = torch.linalg.eigh(Z @ Z.mT if n <= f else Z.mT @ Z)
    # What is not above rounding adds nothing to the fit, and has no direction U.
    counted = torch.finfo(S.dtype).eps * max(n, f) * S[-1] < S
    S, vectors = S[counted], vectors[:, counted]
    return (vectors if n <= f else Z @ vectors / S.sqrt()), S


def _leave_one_out_error(
    U: Float[Tensor, "n r"], S: Float[Tensor, " r"], Y: Float[Tensor, "n t"], penalty: Float[Tensor, ""]
) -> Float[Tensor, " t"]:
    """Σ_i ((y_i − ŷ_i) / (1 − h_i))² for one penalty and centered targets: see `fit_ridge`."""
    shrinkage = S / (S + penalty)
    leverage = 1 / len(U) + U.square() @ shrinkage
    residual = Y - U @ (shrinkage[:, None] * (U.mT @ Y))
    return (residual / (1 - leverage)[:, None]).square().sum(0)


def squared_errors(
    Y: Float[Tensor, "m t"], predicted: Float[Tensor, "m t"]
) -> tuple[Float[Tensor, " t"], Float[Tensor, " t"]]:
    """E (y − ŷ)² and E (y − ȳ)² of each column. The second is exactly 0 where y is constant."""
    return (Y - predicted).square().mean(0), Y.var(0, correction=0)


def coefficient_of_determination(error: Float[Tensor, "..."], variance: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """R² = 1 − error / variance, NaN where the target is constant."""
    return torch.where(variance > 0, 1 - error / variance, torch.nan)


def _check_regression(X: Tensor, Y: Tensor, penalties: Sequence[float]) -> None:
    if len(X) != len(Y) or len(X) < 2:
        raise ValueError(f"a regression needs at least 2 rows with a target each, got {len(X)} and {len(Y)} targets")
    if not (torch.isfinite(X).all() and torch.isfinite(Y).all()):
        raise ValueError("features and targets must be finite: they hold NaN or infinity")
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"penalties must be positive numbers, got {list(penalties)}")
