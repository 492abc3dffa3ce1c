"""Identify the representation of SO(3) that an encoder of point clouds has learned.

If rotations v of the input rotate the embeddings by R(v), and R(v) R(w) = R(vw), then R is a sum of irreducible
representations: in some orthogonal basis it has blocks of degree l, of 2l + 1 dimensions, and fixed directions (l = 0):

    R(v) = Q blockdiag(D^{l_1}(v), D^{l_2}(v), …) Qᵀ,    A_k = Q blockdiag(J_k^{l_1}, J_k^{l_2}, …) Qᵀ,

and only Q and the degrees are unknown. Gradient descent on free A_k ends in local minima, because rotating the input by
π rotates degree l by lπ. The matrix elements of D^l are orthogonal functions on SO(3) (Schur), so regressing
C_a = F_aᵀ F on those of one degree finds the directions on which it acts. Blocks are added one by one, the best first.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from care.geometry.harmonics import harmonic_blocks, harmonic_generators
from care.steer.generators import rotations

DEGREES = (1, 2, 3, 4)
STARTS = 3  # eigenvectors that the ascent to a block starts from
STEPS = 40  # of the ascent from each
WORTH = 0.005  # a block must explain this share of the squared displacement


class Block(NamedTuple):
    """Harmonics of one degree on the orthonormal columns of Q; `gain` is the increase of the mean ⟨R(v_a), C_a⟩."""

    gain: float
    degree: int
    Q: Float64[Tensor, "m b"]


def represent(
    vectors: Float[Tensor, "n 3"], covariance: Float[Tensor, "n m m"], squared_displacement: Float[Tensor, " n"]
) -> tuple[Float[Tensor, "3 m m"], list[int]]:
    """(generators A_k, degrees of the blocks) that maximize the mean of ⟨R(v_a), C_a⟩.

    C_a = F_aᵀ F / images, and `squared_displacement` is ‖F_a − F‖² / images.
    """
    v, C = vectors.double(), covariance.double()
    least = WORTH * float(squared_displacement.mean()) / 2  # ‖RF − F_a‖² falls by twice the gain
    blocks: list[Block] = []
    while (found := _next_block(v, C, blocks)) is not None and found.gain > least:
        blocks.append(found)
    if not blocks:
        return torch.zeros(3, *C.shape[1:]).to(covariance), []
    degrees = [block.degree for block in blocks]
    J = harmonic_blocks(degrees)
    Q = ascend(torch.cat([block.Q for block in blocks], dim=1), rotations(J, v), C)
    return (Q @ J @ Q.mT).to(covariance), degrees


def ascend(Q: Float64[Tensor, "m b"], D: Float64[Tensor, "n b b"], C: Float64[Tensor, "n m m"]) -> Tensor:
    """A local maximum over orthonormal Q of the mean of ⟨I + Q (D_a − I) Qᵀ, C_a⟩.

    The mean is a quadratic function of Q, and convex once μ‖Q‖² (a constant) is added with a large μ. Its linearization
    is maximal at the orthogonal factor of the gradient, so no step decreases it.
    """
    E = D - torch.eye(D.shape[-1], dtype=D.dtype)
    mu = 2 * torch.linalg.matrix_norm(C.mean(0), 2)
    for _ in range(STEPS):
        Q = _orthogonal_factor((C @ Q @ E.mT + C.mT @ Q @ E).mean(0) + mu * Q)
    return Q


def _next_block(v: Float64[Tensor, "n 3"], C: Float64[Tensor, "n m m"], blocks: list[Block]) -> Block | None:
    """The best block on the orthogonal complement of those found so far."""
    N = _complement(C.shape[-1], blocks)
    inside = N.mT @ C @ N
    found = [_best_block(v, inside, degree) for degree in DEGREES if 2 * degree + 1 <= N.shape[1]]
    if not found:
        return None
    best = max(found, key=lambda block: block.gain)
    return best._replace(Q=N @ best.Q)


def _best_block(v: Float64[Tensor, "n 3"], C: Float64[Tensor, "n m m"], degree: int) -> Block:
    """C_a = const + Σ_ij D_ij(a) M_ij, where M_ij = Σ q_i q_jᵀ over all blocks q of this degree, times their variance.

    The M_ij are the blocks of one matrix whose leading eigenvectors are such q, stacked.
    """
    n, m, size = len(C), C.shape[-1], 2 * degree + 1
    D = rotations(harmonic_generators(degree), v)
    X = torch.cat([torch.ones(n, 1, dtype=C.dtype), D.flatten(1)], dim=1)
    M = torch.linalg.lstsq(X, C.flatten(1), driver="gelsd").solution[1:].view(size, size, m, m)
    stacked = M.permute(0, 2, 1, 3).reshape(size * m, size * m)
    leading = torch.linalg.eigh(stacked + stacked.mT).eigenvectors[:, -STARTS:]
    starts = [_orthogonal_factor(column.view(size, m).mT) for column in leading.unbind(1)]
    return max((_scored(ascend(Q, D, C), D, C, degree) for Q in starts), key=lambda block: block.gain)


def _scored(Q: Tensor, D: Tensor, C: Tensor, degree: int) -> Block:
    E = D - torch.eye(D.shape[-1], dtype=D.dtype)
    return Block(float((E * (Q.mT @ C @ Q)).sum((1, 2)).mean()), degree, Q)


def _complement(m: int, blocks: list[Block]) -> Float64[Tensor, "m b"]:
    """An orthonormal basis of the directions orthogonal to all blocks."""
    taken = torch.cat([torch.zeros(m, 0, dtype=torch.float64), *(block.Q for block in blocks)], dim=1)
    return torch.linalg.svd(taken).U[:, taken.shape[1] :]


def _orthogonal_factor(X: Float64[Tensor, "m b"]) -> Float64[Tensor, "m b"]:
    U, _, Vh = torch.linalg.svd(X, full_matrices=False)
    return U @ Vh
