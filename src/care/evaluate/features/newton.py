"""Newton's method for multinomial logistic regression: the objective, and its minimum to any accuracy."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int64
from torch import Tensor

CONJUGATE = 1000  # most conjugate-gradient iterations per Newton step
SKETCHED = 8  # most rows per feature for computing a preconditioner
# After PATIENCE iterations, the Hessian itself is inverted, if it has at most DENSE rows. Otherwise thousands would
# follow where classes are nearly separated, since the mean curvature over classes is then a poor preconditioner, or
# where features are nearly dependent and the penalty is smaller than the rounding of float32 products.
PATIENCE, DENSE = 60, 4096
# On a GPU, a Hessian of DENSE_ON_GPU rows takes as long as a few hundred iterations, and to look at the residual after
# every iteration would make the host wait each time.
PATIENCE_ON_GPU, DENSE_ON_GPU, LOOKS_ON_GPU = 24, 12_288, 8
# Probabilities below this have no curvature: in float32 they would be subnormal, which CPUs take ten times as long for.
NOTHING = 1e-30

Solve = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Objective:
    """Σᵢ −log softmax(Zθ)_{yᵢ} + ½ tr θᵀQθ: rows Z with a 1 behind them, classes Y one-hot, Q the penalty.

    `curved` are the rows from which the Hessian is computed, in float32 for a rough minimum; the gradient uses Z.
    """

    Z: Float64[Tensor, "n p"]
    Y: Float64[Tensor, "n classes"]
    Q: Float64[Tensor, "p p"]
    curved: Float[Tensor, "n p"]

    @classmethod
    def of(
        cls, rows: Float64[Tensor, "n d"], labels: Int64[Tensor, " n"], penalty: Float64[Tensor, "d d"]
    ) -> "Objective":
        """The objective of rows without the 1, with a penalty that leaves the bias unpenalized."""
        Q = torch.block_diag(penalty, rows.new_zeros(1, 1))
        Z = F.pad(rows, (0, 1), value=1.0)
        return cls(Z, F.one_hot(labels).double(), Q, curved=Z)

    def start(self) -> Float64[Tensor, "p classes"]:
        """Weights of 0 with the best biases: the minimum under an infinite penalty."""
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

    def curve(self, v: Float64[Tensor, "p classes"], q: Float[Tensor, "n classes"]) -> Float64[Tensor, "p classes"]:
        """The Hessian times v, at the cost of a gradient; q as `curvature` gives it."""
        u = self.curved @ v.to(self.curved.dtype)
        return (self.curved.mT @ (q * (u - (q * u).sum(1, keepdim=True)))).double() + self.Q @ v

    def curvature(self, q: Float64[Tensor, "n classes"]) -> Float[Tensor, "n classes"]:
        """The probabilities in the precision of the Hessian."""
        return torch.where(q < NOTHING, 0.0, q).to(self.curved.dtype)

    def hessian(self, q: Float64[Tensor, "n classes"]) -> Float64[Tensor, "pc pc"]:
        """The Hessian as a matrix, block by block: Zᵀ diag(q_k (δ_kj − q_j)) Z + δ_kj Q for classes k and j.

        Adding a constant to all classes' biases changes nothing, so the Hessian is 0 there, and 1 is added.
        """
        p, K = self.Z.shape[1], q.shape[1]
        H = self.Z.new_empty(K, p, K, p)
        for k in range(K):
            for j in range(k + 1):
                w = q[:, k] * (float(k == j) - q[:, j])
                H[k, :, j] = H[j, :, k] = self.Z.mT @ (w[:, None] * self.Z)
            H[k, :, k] += self.Q
        H[:, -1, :, -1] += 1.0
        return H.view(K * p, K * p)

    def preconditioner(self, q: Float64[Tensor, "n classes"]) -> Solve:
        """The inverse of Zᵀ diag(w) Z + Q, wᵢ the mean of qᵢ(1 − qᵢ): the mean curvature, for all classes.

        With many rows it is computed from a part of them, since any preconditioner leads to the same step.
        """
        n, p = self.Z.shape
        Z, q = (
            (self.Z, q) if n <= SKETCHED * p else (self.Z[rows := _evenly_spaced(SKETCHED * p, n, q.device)], q[rows])
        )
        H = Z.mT @ (n / len(Z) * (q * (1 - q)).mean(1, keepdim=True) * Z) + self.Q
        L = _cholesky(H)
        return lambda residual: torch.cholesky_solve(residual, L)

    def inverse_hessian(self, q: Float64[Tensor, "n classes"]) -> Solve:
        """The inverse of the Hessian."""
        L = _cholesky(self.hessian(q))
        return lambda residual: torch.cholesky_solve(residual.mT.reshape(-1, 1), L).view(residual.mT.shape).mT


def minimize(
    objective: Objective, θ: Float64[Tensor, "p classes"], tolerance: float, max_iterations: int
) -> tuple[Float64[Tensor, "p classes"], float]:
    """The minimizing θ, by Newton's method, and the length of its gradient relative to that at the given θ.

    With well-separated classes, the curvature is far from that at the start, for which coordinates were chosen:
    L-BFGS took 2,500 gradients on features where these steps take 350 products with the Hessian.
    """
    gradient, q = objective.gradient(θ)
    start = float(gradient.norm()) or 1.0
    # With constant features, the minimum is at the start, and its gradient is only rounding.
    rounding = torch.finfo(torch.float64).eps * float(objective.Z.abs().sum(0).max())
    left, dense = 1.0 if gradient.any() and start > rounding else 0.0, None
    for _ in range(max_iterations):
        if left <= tolerance:
            break
        step, dense = _newton_step(objective, gradient, q, min(0.1, left**0.5), dense)
        θ = _descend(objective, θ, step, slope=float((gradient * step).sum()))
        gradient, q = objective.gradient(θ)
        left = float(gradient.norm()) / start
    return θ, left


def _cholesky(H: Float64[Tensor, "p p"]) -> Float64[Tensor, "p p"]:
    """L with LLᵀ = H, up to rounding."""
    H.diagonal().add_(len(H) * torch.finfo(H.dtype).eps * H.diagonal().max())
    return torch.linalg.cholesky(H)


def _evenly_spaced(count: int, n: int, device: torch.device) -> Int64[Tensor, " count"]:
    """Multiples of the golden ratio modulo 1, as rows: spread evenly, and out of step with any period of the labels."""
    return (torch.arange(count, device=device, dtype=torch.float64) * (5**0.5 - 1) / 2 % 1 * n).long()


def _newton_step(
    objective: Objective,
    gradient: Float64[Tensor, "p classes"],
    q: Float64[Tensor, "n classes"],
    accuracy: float,
    dense: Solve | None,
) -> tuple[Float64[Tensor, "p classes"], Solve | None]:
    """The s with Hs = −∇, up to `accuracy` of the gradient, and the inverse Hessian, if it was computed.

    s is found by conjugate gradients or, if these take long, exactly. `dense` is the inverse Hessian of an earlier
    step, used as the preconditioner.
    """
    patience, most, looks = _limits(gradient.is_cuda)
    solve, curvature, residual = dense or objective.preconditioner(q), objective.curvature(q), -gradient
    step, goal = torch.zeros_like(gradient), accuracy * gradient.norm()
    direction, along = torch.zeros_like(gradient), residual.new_tensor(torch.inf)
    for iteration in range(CONJUGATE):
        if iteration == patience and gradient.numel() <= most:
            dense = objective.inverse_hessian(q)
            return dense(-gradient), dense
        z = solve(residual)
        before, along = along, (residual * z).sum()
        direction = z + _ratio(along, before) * direction
        curved = objective.curve(direction, curvature)
        size = _ratio(along, (direction * curved).sum())
        step, residual = step + size * direction, residual - size * curved
        if iteration % looks == looks - 1 and residual.norm() <= goal:
            break
    return step, dense


def _limits(on_gpu: bool) -> tuple[int, int, int]:
    """Iterations before the Hessian is inverted, its most rows, and the iterations between looks at the residual."""
    return (PATIENCE_ON_GPU, DENSE_ON_GPU, LOOKS_ON_GPU) if on_gpu else (PATIENCE, DENSE, 1)


def _ratio(a: Float64[Tensor, ""], b: Float64[Tensor, ""]) -> Float64[Tensor, ""]:
    """a/b, or 0 where b is 0: the residual has vanished, and no step remains."""
    return torch.where(b > 0, a / b, 0.0)


def _descend(
    objective: Objective, θ: Float64[Tensor, "p classes"], step: Float64[Tensor, "p classes"], slope: float
) -> Float64[Tensor, "p classes"]:
    """θ + t · step, with the first t of 1, ½, ¼ … for which the objective falls sufficiently, up to rounding."""
    before, t = objective.value(θ), 1.0
    rounding = 1e-13 * before.abs()
    while t > 1e-9 and not objective.value(θ + t * step) <= before + 1e-4 * t * slope + rounding:
        t /= 2
    return θ + t * step
