"""Multinomial logistic regression solved to its minimum, to which a linear probe converges; no learning rate needed."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from care.evaluate.features.newton import Objective, minimize


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted classifier, scores = features @ weight + bias, and how well its minimum was found.

    `gradient_norm` is the length of the gradient at the solution relative to that at the start (all weights 0), both
    in whitened coordinates, where units and correlations of the features do not matter. `converged` says whether it is
    below the requested tolerance.
    """

    weight: Float64[Tensor, "d classes"]
    bias: Float64[Tensor, " classes"]
    gradient_norm: float
    converged: bool

    @classmethod
    def of(
        cls,
        weight: Float64[Tensor, "d present"],
        bias: Float64[Tensor, " present"],
        present: Int64[Tensor, " present"],
        classes: int,
        gradient_norm: float,
        tolerance: float,
    ) -> "Logistic":
        """A classifier of all classes, given the weights of the classes that are present."""
        all_weights, all_biases = weight.new_zeros(len(weight), classes), weight.new_full((classes,), -torch.inf)
        all_weights[:, present], all_biases[present] = weight, bias
        return cls(all_weights, all_biases, gradient_norm, gradient_norm <= tolerance)

    def scores(self, features: Float[Tensor, "m d"]) -> Float64[Tensor, "m classes"]:
        """Logits; their softmax is the probability of each class."""
        return features.double() @ self.weight + self.bias

    def predict(self, features: Float[Tensor, "m d"]) -> Int64[Tensor, " m"]:
        """The most probable class of each row."""
        return self.scores(features).argmax(1)


@torch.no_grad()
def logistic_regression(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    penalty: float,
    classes: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
) -> Logistic:
    """min_{W,b} Σᵢ −log softmax(Wᵀxᵢ + b)_{yᵢ} + ½ penalty ‖W‖², in float64: scikit-learn's C is 1/penalty.

    With two classes the penalty is on the difference of their weights, ½ penalty ‖w₁ − w₀‖², as in binary logistic
    regression and in scikit-learn. A class without rows gets the score −∞, the limit of its bias.

    The iteration runs in whitened coordinates, W = PV with features (x − μ)P of about unit curvature, but minimizes
    the objective above, penalty included: badly scaled or correlated features cost no accuracy.
    """
    features, labels = checked_rows(features, labels, "training")
    if not 0 < penalty < float("inf"):
        raise ValueError(f"penalty must be greater than 0, got {penalty}: separable classes have no minimum without it")
    classes = int(labels.max()) + 1 if classes is None else classes
    present, labels = labels.unique(return_inverse=True)
    if len(present) < 2 or present[-1] >= classes:
        raise ValueError(f"labels must hold at least two classes, each below {classes}, got {present.tolist()}")
    # Two softmax weights ±w/2 have half the squared length of their difference w.
    penalty = 2 * penalty if len(present) == 2 else penalty
    X, center = features.double(), features.double().mean(0)
    P = _whitening(X - center, penalty, len(present))
    objective = Objective.of((X - center) @ P, labels, penalty * P.mT @ P)
    θ, gradient_norm = minimize(objective, objective.start(), tolerance, max_iterations)
    weight = P @ θ[:-1]
    return Logistic.of(weight, θ[-1] - center @ weight, present, classes, gradient_norm, tolerance)


def _whitening(X: Float64[Tensor, "n d"], penalty: float, classes: int) -> Float64[Tensor, "d d"]:
    """P with PᵀHP = I for H = h XᵀX + penalty I, h = (1 − 1/classes)/classes: the curvature at W = 0.

    H is brought to a unit diagonal first, so that features of small scale are not lost in the rounding of others.
    Any invertible P gives the same minimum: flooring the eigenvalues only costs speed.
    """
    H = (1 - 1 / classes) / classes * X.mT @ X
    H.diagonal().add_(penalty)
    scale = H.diagonal().rsqrt()
    eigenvalues, U = torch.linalg.eigh(scale[:, None] * H * scale)
    floor = len(H) * torch.finfo(H.dtype).eps * eigenvalues[-1]
    return scale[:, None] * U * eigenvalues.clamp_min(floor).rsqrt()


def cross_entropy_gradient(
    θ: Float[Tensor, "seeds d weights"], X: Float[Tensor, "seeds b d"], Y: Bool[Tensor, "seeds b classes"]
) -> Float[Tensor, "seeds d weights"]:
    """∇_θ of the mean cross-entropy: Xᵀ(softmax(Xθ) − Y)/b. The weights are those of one or more classifiers in a row,
    and each has a softmax of its own.
    """
    probability = (X @ θ).unflatten(2, (-1, Y.shape[2])).softmax(3)
    return X.mT @ (probability.add_(Y[:, :, None], alpha=-1) / X.shape[1]).flatten(2)


def checked_rows(features: Tensor, labels: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """Features in at least float32 and their labels in int64, or a ValueError that says what is wrong with them."""
    if features.ndim != 2 or labels.ndim != 1 or len(features) != len(labels) or len(features) == 0:
        raise ValueError(
            f"{what} rows must be features [n, d] and labels [n] with n ≥ 1, "
            f"got {list(features.shape)} and {list(labels.shape)}"
        )
    if not torch.isfinite(features).all():
        raise ValueError(f"{what} features must be finite: they hold NaN or infinity")
    if labels.min() < 0:
        raise ValueError(f"{what} rows must all have a class: leave out those labeled {int(labels.min())}")
    return features.to(torch.promote_types(features.dtype, torch.float32)), labels.long()
