"""The irreducible representations of SO(3): how spherical harmonics of degree l transform under rotations."""

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor


def harmonic_generators(degree: int) -> Float64[Tensor, "3 m m"]:
    """J_x, J_y, J_z of degree l, skew and of size 2l + 1, with [J_x, J_y] = J_z and its cyclic permutations.

    exp(Σ_k v_k J_k) rotates the real spherical harmonics of degree l by the rotation vector v. They are the
    generators on complex harmonics, where J_z is diagonal and J_x ± iJ_y raise and lower the order, written in a real
    basis: the cosine and sine of every order.
    """
    order = torch.arange(degree, -degree - 1, -1, dtype=torch.float64)
    ladder = torch.sqrt(degree * (degree + 1) - order[1:] * (order[1:] + 1))
    up = torch.diag(ladder, 1).to(torch.complex128)
    spins = ((up + up.mH) / 2, (up - up.mH) / 2j, torch.diag(order).to(torch.complex128))
    real = _real_basis(degree)
    return torch.stack([(real @ (-1j * spin) @ real.mH).real for spin in spins])


def harmonic_blocks(degrees: Sequence[int]) -> Float64[Tensor, "3 m m"]:
    """J_x, J_y, J_z of several degrees at once, block-diagonal with one block per degree."""
    parts = [torch.zeros(3, 0, 0, dtype=torch.float64), *(harmonic_generators(degree) for degree in degrees)]
    return torch.stack([torch.block_diag(*(part[k] for part in parts)) for k in range(3)])


def _real_basis(degree: int) -> Tensor:
    """The unitary matrix from complex to real harmonics: order 0, then the cosine and sine of orders 1, 2, …"""
    basis = torch.zeros(2 * degree + 1, 2 * degree + 1, dtype=torch.complex128)
    basis[0, degree] = 1
    for order in range(1, degree + 1):
        sign, plus, minus = (-1) ** order, degree - order, degree + order
        basis[2 * order - 1, plus], basis[2 * order - 1, minus] = sign * 0.5**0.5, 0.5**0.5
        basis[2 * order, plus], basis[2 * order, minus] = -1j * sign * 0.5**0.5, 1j * 0.5**0.5
    return basis
