"""Multinomial logistic regression solved to the minimum: what a linear probe converges to, without its settings."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

CONJUGATE = 1000  # conjugate gradients per step of Newton's, at most
SKETCHED = 8  # rows per feature that a preconditioner is made of, at most


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted classifier, scores = features @ weight + bias, and how well its minimum was found.

    `gradient_norm` is the length of the gradient at the solution relative to that at the start (all weights 0), both
    measured in coordinates in which no unit and no correlation of the features matters. `converged` says whether it is
    below the tolerance that was asked for.
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
        """A classifier of all classes from the weights of those that are present."""
        all_weights, all_biases = weight.new_zeros(len(weight), classes), weight.new_full((classes,), -torch.inf)
        all_weights[:, present], all_biases[present] = weight, bias
        return cls(all_weights, all_biases, gradient_norm, gradient_norm <= tolerance)

    def scores(self, features: Float[Tensor, "m d"]) -> Float64[Tensor, "m classes"]:
        """Logits; their softmax are the probabilities of the classes."""
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
    regression and in scikit-learn. A class without rows gets the score −∞, where its bias tends to.

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

    H is brought to a unit diagonal first, so that features of tiny units are not lost in the rounding of large ones.
    Any invertible P gives the same minimum: flooring the eigenvalues only costs speed.
    """
    H = (1 - 1 / classes) / classes * X.mT @ X
    H.diagonal().add_(penalty)
    scale = H.diagonal().rsqrt()
    eigenvalues, U = torch.linalg.eigh(scale[:, None] * H * scale)
    floor = len(H) * torch.finfo(H.dtype).eps * eigenvalues[-1]
    return scale[:, None] * U * eigenvalues.clamp_min(floor).rsqrt()


@dataclass(frozen=True, eq=False)
class Objective:
    """Σᵢ −log softmax(Zθ)_{yᵢ} + ½ tr θᵀQθ: rows Z with a 1 behind them, classes Y one-hot, Q the penalty.

    Where a rough minimum will do, `curved` are the rows in float32: the Hessian is as exact as they are, the gradient
    is that of Z.
    """

    Z: Float64[Tensor, "n p"]
    Y: Float64[Tensor, "n classes"]
    Q: Float64[Tensor, "p p"]
    curved: Float[Tensor, "n p"]

    @classmethod
    def of(
        cls, rows: Float64[Tensor, "n d"], labels: Int64[Tensor, " n"], penalty: Float64[Tensor, "d d"]
    ) -> "Objective":
        """That of rows without the 1, and of a penalty that leaves the bias alone."""
        Q = torch.block_diag(penalty, rows.new_zeros(1, 1))
        Z = F.pad(rows, (0, 1), value=1.0)
        return cls(Z, F.one_hot(labels).double(), Q, curved=Z)

    def start(self) -> Float64[Tensor, "p classes"]:
        """No weights, and the biases that are best then: the minimum under an infinite penalty."""
        θ = self.Z.new_zeros(self.Z.shape[1], self.Y.shape[1])
        θ[-1] = self.Y.mean(0).log()
        return θ

    def value(self, θ: Float64[Tensor, "p classes"]) -> Float64[Tensor, ""]:
        """The objective."""
        scores = self.Z @ θ
        return (scores.logsumexp(1) - (scores * self.Y).sum(1)).sum() + (θ * (self.Q @ θ)).sum() / 2

    def gradient(
        self, θ: Float64[Tensor, "p classes"]
    ) -> tuple[Float64[Tensor, "p classes"], Float64[Tensor, "n classes"]]:
        """Zᵀ(q − Y) + Qθ, and the probabilities q = softmax(Zθ)."""
        q = (self.Z @ θ).softmax(1)
        return self.Z.mT @ (q - self.Y) + self.Q @ θ, q

    def curve(self, v: Float64[Tensor, "p classes"], q: Float64[Tensor, "n classes"]) -> Float64[Tensor, "p classes"]:
        """The Hessian times v, at the cost of a gradient."""
        q, u = q.to(self.curved.dtype), self.curved @ v.to(self.curved.dtype)
        return (self.curved.mT @ (q * (u - (q * u).sum(1, keepdim=True)))).double() + self.Q @ v

    def preconditioner(self, q: Float64[Tensor, "n classes"]) -> Float64[Tensor, "p p"]:
        """L with LLᵀ = Zᵀ diag(w) Z + Q and wᵢ the mean of qᵢ(1 − qᵢ): the mean curvature of a class, for all.

        Of many rows a part stands for all, since any preconditioner leads to the same step.
        """
        n, p = self.Z.shape
        Z, q = (self.Z, q) if n <= SKETCHED * p else (self.Z[rows := _spread(SKETCHED * p, n, q.device)], q[rows])
        H = Z.mT @ (n / len(Z) * (q * (1 - q)).mean(1, keepdim=True) * Z) + self.Q
        H.diagonal().add_(p * torch.finfo(H.dtype).eps * H.diagonal().max())
        return torch.linalg.cholesky(H)


def minimize(
    objective: Objective, θ: Float64[Tensor, "p classes"], tolerance: float, max_iterations: int
) -> tuple[Float64[Tensor, "p classes"], float]:
    """The θ of the minimum, by Newton's method, and the length of its gradient relative to that at the θ given.

    Where classes are well separated, the curvature is far from that of the start, for which coordinates were chosen:
    L-BFGS took 2,500 gradients for features for which these steps take 350 products with the Hessian.
    """
    gradient, q = objective.gradient(θ)
    start, left = float(gradient.norm()) or 1.0, 1.0 if gradient.any() else 0.0
    for _ in range(max_iterations):
        if left <= tolerance:
            break
        step = _newton_step(objective, gradient, q, accuracy=min(0.1, left**0.5))
        θ = _descend(objective, θ, step, slope=float((gradient * step).sum()))
        gradient, q = objective.gradient(θ)
        left = float(gradient.norm()) / start
    return θ, left


def _spread(count: int, n: int, device: torch.device) -> Int64[Tensor, " count"]:
    """Multiples of the golden ratio modulo 1, as rows: spread evenly, and out of step with any period of the labels."""
    return (torch.arange(count, device=device, dtype=torch.float64) * (5**0.5 - 1) / 2 % 1 * n).long()


def _newton_step(
    objective: Objective, gradient: Float64[Tensor, "p classes"], q: Float64[Tensor, "n classes"], accuracy: float
) -> Float64[Tensor, "p classes"]:
    """The s with Hs = −∇, up to `accuracy` of the gradient, by preconditioned conjugate gradients."""
    L, residual = objective.preconditioner(q), -gradient
    step, goal = torch.zeros_like(gradient), accuracy * gradient.norm()
    direction = z = torch.cholesky_solve(residual, L)
    for _ in range(CONJUGATE):
        curved, along = objective.curve(direction, q), (residual * z).sum()
        size = along / (direction * curved).sum()
        step, residual = step + size * direction, residual - size * curved
        if residual.norm() <= goal:
            break
        z = torch.cholesky_solve(residual, L)
        direction = z + (residual * z).sum() / along * direction
    return step


def _descend(
    objective: Objective, θ: Float64[Tensor, "p classes"], step: Float64[Tensor, "p classes"], slope: float
) -> Float64[Tensor, "p classes"]:
    """θ + t · step, with the first t of 1, ½, ¼ … by which the objective falls as it should, but for its rounding."""
    before, t = objective.value(θ), 1.0
    rounding = 1e-13 * before.abs()
    while t > 1e-9 and not objective.value(θ + t * step) <= before + 1e-4 * t * slope + rounding:
        t /= 2
    return θ + t * step


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
        raise ValueError(f"{what} rows must all have a class: leave out those labelled {int(labels.min())}")
    return features.to(torch.promote_types(features.dtype, torch.float32)), labels.long()
