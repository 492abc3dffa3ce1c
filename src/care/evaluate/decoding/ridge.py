"""Ridge regression with the penalty of least leave-one-out error."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Features are standardized, so penalties are in units of rows: from almost none to one that leaves only the mean.
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


def fit_ridge(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    penalties: Sequence[float] = PENALTIES,
    rows_per_image: int = 1,
) -> Ridge:
    """argmin_w ‖Y − ȳ − Z w‖² + λ ‖w‖² for the standardized features Z, with the λ of least leave-one-out error.

    One image is left out at a time with all of its adjacent rows, since these are similar and would predict each other.
    With Z Zᵀ = U S Uᵀ, one decomposition serves all penalties: the fit is Ŷ = ȳ + U S/(S + λ) Uᵀ Y, the error made
    for the rows G of an image without fitting them is (I − H_GG)⁻¹ (Y_G − Ŷ_G) with H = 1/n + U S/(S + λ) Uᵀ, and
    w = Zᵀ U 1/(S + λ) Uᵀ Y. Everything in float64.
    """
    _check_regression(X, Y, penalties, rows_per_image)
    X, Y = X.double(), Y.double()
    mean, scale = X.mean(0), X.std(0, correction=0)
    scale = torch.where(scale > 0, scale, 1)
    Z = (X - mean) / scale
    U, S = _left_singular(Z)
    centered = Y - Y.mean(0)
    lambdas = torch.tensor(penalties, dtype=torch.float64, device=X.device)
    error = torch.stack([_leave_one_out_error(U, S, centered, penalty, rows_per_image) for penalty in lambdas])
    penalty = lambdas[error.argmin(0)]
    weights = Z.mT @ (U @ (U.mT @ centered / (S[:, None] + penalty)))
    return Ridge(mean, scale, weights, Y.mean(0), penalty)


def ridge_predictions(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: Float[Tensor, "m f"],
) -> Float[Tensor, "m t"]:
    """The targets of the rows `others`, each regressed on the rows of X in which it is known; NaN with fewer than 2.

    Features of `others` are clamped to three times the range of the fitted ones. A unit that is almost always 0 in X
    has a tiny scale, so a row in which it is not could be predicted thousands of deviations away.
    """
    predicted = torch.full((len(others), Y.shape[1]), torch.nan, dtype=torch.float64, device=X.device)
    # The decomposition of the features is the expensive part: targets that are known in the same rows share it.
    for rows in known.mT.unique(dim=0):
        columns = (known == rows[:, None]).all(0)
        if rows.sum() >= 2:
            low, high = X[rows].aminmax(dim=0)
            within = others.clamp(2 * low - high, 2 * high - low)
            predicted[:, columns] = fit_ridge(X[rows], Y[rows][:, columns]).predict(within)
    return predicted


def _left_singular(Z: Float[Tensor, "n f"]) -> tuple[Float[Tensor, "n r"], Float[Tensor, " r"]]:
    """U and S of Z Zᵀ = U S Uᵀ, from the smaller of Z Zᵀ and Zᵀ Z = V S Vᵀ, where U = Z V S^(−½)."""
    n, f = Z.shape
    S, vectors = torch.linalg.eigh(Z @ Z.mT if n <= f else Z.mT @ Z)
    # Eigenvalues not above rounding add nothing to the fit, and have no direction U.
    counted = torch.finfo(S.dtype).eps * max(n, f) * S[-1] < S
    S, vectors = S[counted], vectors[:, counted]
    return (vectors if n <= f else Z @ vectors / S.sqrt()), S


def _leave_one_out_error(
    U: Float[Tensor, "n r"], S: Float[Tensor, " r"], Y: Float[Tensor, "n t"], penalty: Float[Tensor, ""], rows: int
) -> Float[Tensor, " t"]:
    """Σ_G ‖(I − H_GG)⁻¹ (Y_G − Ŷ_G)‖² for one penalty and centered targets: see `fit_ridge`."""
    shrinkage = S / (S + penalty)
    residual = Y - U @ (shrinkage[:, None] * (U.mT @ Y))
    by_image = U.unflatten(0, (-1, rows))
    H = 1 / len(U) + by_image * shrinkage @ by_image.mT
    left_out = torch.linalg.solve(torch.eye(rows).to(H) - H, residual.unflatten(0, (-1, rows)))
    return left_out.square().sum((0, 1))


def _check_regression(X: Tensor, Y: Tensor, penalties: Sequence[float], rows_per_image: int) -> None:
    if len(X) != len(Y) or len(X) < 2:
        raise ValueError(f"a regression needs at least 2 rows with a target each, got {len(X)} and {len(Y)} targets")
    if len(X) % rows_per_image or len(X) == rows_per_image:
        raise ValueError(f"a regression needs at least two images with {rows_per_image} rows each, got {len(X)} rows")
    if not (torch.isfinite(X).all() and torch.isfinite(Y).all()):
        raise ValueError("features and targets must be finite: they hold NaN or infinity")
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"penalties must be positive numbers, got {list(penalties)}")
