"""Muon (Jordan et al., 2024): momentum that is orthogonalized, matrix by matrix, before it updates the weights."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.train.per_group import PerGroup

# A quintic a x + b x³ + c x⁵ whose iterates move all x in (0, 1] near 1, fast rather than exactly.
COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5
OF_ADAM = 0.2  # the root mean square of Adam's steps, in learning rates: the same learning rate then suits both
BETA2, EPSILON = 0.999, 1e-8
WIDE = 1.5  # columns per row from which A alone takes fewer operations
LONGER = 8  # a matrix this many times as long as the one before is not padded and stacked with it


class Muon(PerGroup):
    """For each weight W with gradient G, momentum μ, learning rate γ and weight decay β, as an r × c matrix:

        M ← μ M + G,   W ← W − γ (βW + 0.2 √max(r, c) · orthogonal(G + μ M))

    The kernels of a convolution are the rows of one matrix. Groups with `adapt=False` (norms and biases) are updated by
    Adam. Nothing here makes the host wait for the GPU.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        adapt: bool = True,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "adapt": adapt})

    def update(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Orthogonalized steps for matrices, Adam's steps for the other groups."""
        (self._orthogonal_steps if group["adapt"] else self._adam_steps)(weights, gradients, group)

    def _orthogonal_steps(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        momentum = [self._state(w, "momentum") for w in weights]
        torch._foreach_mul_(momentum, group["momentum"])
        torch._foreach_add_(momentum, gradients)
        ahead = torch._foreach_add(gradients, momentum, alpha=group["momentum"])
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        for some, directions in _alike(weights, list(ahead)):
            found = orthogonal(_stacked(directions)) * group["lr"]
            steps = [_like(u, X) for u, X in zip(directions, found, strict=True)]
            torch._foreach_mul_(steps, [OF_ADAM * max(_matrix_shape(u)) ** 0.5 for u in directions])
            torch._foreach_sub_(some, steps)

    def _adam_steps(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², w ← w − γ m̂/(√v̂ + ε), where β₁ is the momentum."""
        first, second = ([self._state(w, key) for w in weights] for key in ("momentum", "square"))
        count = self._state(weights[0], "step", weights[0].new_zeros(()))
        count += 1
        beta = group["momentum"]
        torch._foreach_lerp_(first, gradients, 1 - beta)
        torch._foreach_mul_(second, BETA2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - BETA2)
        size = torch._foreach_sqrt(second)
        torch._foreach_div_(size, (1 - BETA2**count).sqrt())
        torch._foreach_add_(size, EPSILON)
        steps = torch._foreach_div(first, size)
        torch._foreach_mul_(steps, group["lr"] / (1 - beta**count))
        torch._foreach_sub_(weights, steps)

    def _state(self, w: Tensor, key: str, first: Tensor | None = None) -> Tensor:
        if key not in self.state[w]:
            self.state[w][key] = torch.zeros_like(w) if first is None else first
        found: Tensor = self.state[w][key]
        return found


def orthogonal(M: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """Approximately U Vᵀ of the decomposition M = U S Vᵀ: singular values between 0.7 and 1.2 in place of 1.

    The Newton–Schulz iteration X ← p(A) X with p(A) = a + bA + cA² and A = X Xᵀ, starting at X = M/‖M‖: in bfloat16 on
    a GPU, and for a wide matrix on a CPU with A alone, by a third of the operations.
    """
    if M.shape[1] > M.shape[2]:
        return orthogonal(M.mT).mT
    X = M / (torch.linalg.matrix_norm(M, keepdim=True) + 1e-7)
    if M.is_cuda:
        return _iterated(X.bfloat16()).to(M.dtype)
    return _product(X @ X.mT) @ X if M.shape[2] > WIDE * M.shape[1] else _iterated(X)


def _iterated(X: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """X after all iterations, by 5 r³ + 10 r²c products."""
    for _ in range(ITERATIONS):
        A = X @ X.mT
        X = torch.baddbmm(X, _quadratic(A), X, beta=COEFFICIENTS[0])
    return X


def _product(A: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """The product P of all p(A), with which X becomes P X, by 17 r³ products: after an iteration, A is p(A) A p(A).

    It squares the singular values, which float32 bears and bfloat16 does not.
    """
    found = step = _polynomial(A)
    for _ in range(ITERATIONS - 1):
        A = step @ A @ step
        step = _polynomial(A)
        found = step @ found
    return found


def _polynomial(A: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """p(A) = a + bA + cA²."""
    found = _quadratic(A)
    found.diagonal(dim1=1, dim2=2).add_(COEFFICIENTS[0])
    return found


def _quadratic(A: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """bA + cA²."""
    _, b, c = COEFFICIENTS
    return torch.baddbmm(A, A, A, beta=b, alpha=c)


def _alike(weights: list[Tensor], directions: list[Tensor]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Groups of weights and directions with the same min(r, c): a network has few such values and many matrices."""
    some: list[tuple[Tensor, Tensor]] = []
    for pair in sorted(zip(weights, directions, strict=True), key=lambda pair: sorted(_matrix_shape(pair[0]))):
        if some and _unlike(some[-1][0], pair[0]):
            yield [w for w, _ in some], [u for _, u in some]
            some = []
        some.append(pair)
    yield [w for w, _ in some], [u for _, u in some]


def _unlike(before: Tensor, w: Tensor) -> bool:
    """Whether two matrices differ in min(r, c), or so much in length that stacking them would mostly add zeros."""
    (rank, length), (other, longer) = sorted(_matrix_shape(before)), sorted(_matrix_shape(w))
    return other != rank or longer > LONGER * length


def _stacked(tensors: list[Tensor]) -> Float[Tensor, "n r c"]:
    """All tensors as wide matrices in one stack, padded with columns of zeros, which add nothing to X Xᵀ.

    A ResNet-18 has matrices of 13 shapes, which fit into four such stacks: for small products on a GPU, the launches
    dominate.
    """
    shapes = [_matrix_shape(u) for u in tensors]
    stack = tensors[0].new_zeros(len(tensors), min(shapes[0]), max(max(shape) for shape in shapes))
    torch._foreach_copy_([_like(u, X) for u, X in zip(tensors, stack, strict=True)], tensors)
    return stack


def _like(u: Tensor, X: Float[Tensor, "r c"]) -> Tensor:
    """The part of X that holds u, in the shape of u."""
    rows, columns = _matrix_shape(u)
    part = X[:rows, :columns] if rows <= columns else X[:columns, :rows].mT
    return part.unflatten(1, u.shape[1:])


def _matrix_shape(w: Tensor) -> tuple[int, int]:
    """(rows, columns) of a weight: its first dimension, and the product of all others."""
    return len(w), w.numel() // len(w)
