"""Rotations from skew generators, and generators from rotations."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import skew, solve_wahba

RIDGE = 1e-6  # of the mean square of a coordinate: those that never vary get the generator 0


def rotations(
    generators: Float[Tensor, "k m m"],
    theta: Float[Tensor, "n k"],
    exp: Callable[[Tensor], Tensor] = torch.linalg.matrix_exp,
) -> Float[Tensor, "n m m"]:
    """R(θ) = exp(Σ_k θ_k A_k): in SO(m) for skew A_k, I at θ = 0, and R(sθ) R(tθ) = R((s + t)θ).

    The gradient of torch.linalg.matrix_exp needs the exponential of a matrix of twice the size. For fitting,
    `care.geometry.exponential` takes less than half the time.
    """
    return exp(torch.einsum("nk,kij->nij", theta.to(generators), generators))


def with_products(
    theta: Float[Tensor, "n k"], names: Sequence[str], products: Sequence[tuple[str, str]]
) -> Float[Tensor, "n more"]:
    """θ, followed by θ_i θ_j for every pair of names."""
    i, j = ([names.index(pair[side]) for pair in products] for side in (0, 1))
    return torch.cat([theta, theta[:, i] * theta[:, j]], dim=1)


def logarithms(R: Float[Tensor, "n m m"]) -> Float[Tensor, "n m m"]:
    """The skew L with exp(L) = R and all angles in [−π, π], by the eigenvalues e^{iα} of R.

    R is normal, so its eigenvectors are orthogonal except for repeated eigenvalues, where the inverse is needed.
    """
    values, vectors = torch.linalg.eig(R.double())
    angles = torch.diag_embed(1j * values.angle())
    return skew((vectors @ angles @ torch.linalg.inv(vectors)).real).to(R.dtype)


def procrustes_rotations(covariance: Float[Tensor, "n m m"]) -> Float[Tensor, "n m m"]:
    """The orthogonal Procrustes solution of every augmentation, argmax_R ⟨R, C⟩ over SO(m), for C = F_aᵀ F."""
    eye = torch.eye(covariance.shape[-1]).to(covariance)
    return solve_wahba(eye.expand_as(covariance), covariance.mT)


def regressed_logarithms(theta: Float[Tensor, "n k"], covariance: Float[Tensor, "n m m"]) -> Float[Tensor, "k m m"]:
    """A = argmin Σ_a ‖log R_a − Σ_k θ_ak A_k‖², with R_a the Procrustes solution of augmentation a.

    A closed form, valid for rotation angles below π: beyond, the principal logarithm belongs to another angle.
    A coordinate that never varies gets the generator 0.
    """
    L = logarithms(procrustes_rotations(covariance)).flatten(1).double()
    X = theta.double() / _scale(theta)
    gram = X.mT @ X + RIDGE * len(X) * torch.eye(X.shape[1], dtype=X.dtype)
    A = torch.linalg.solve(gram, X.mT @ L) / _scale(theta)[:, None]
    return skew(A.view(-1, *covariance.shape[1:])).to(covariance.dtype)


def _scale(theta: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """The root-mean-square of every coordinate, 1 for those that are always 0."""
    size = theta.double().square().mean(0).sqrt()
    return torch.where(size > 0, size, 1.0)
