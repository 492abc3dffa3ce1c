"""The exponential of a matrix with a fixed number of products, so that the host never waits for a value."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

# For skew matrices whose angles stay below 40 (six revolutions) what is left out is smaller than what fp32 rounds.
SQUARINGS, DEGREE = 6, 8


def exponential(X: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """exp(X) = exp(X / 2^s)^(2^s), with the Taylor series up to degree 8 and s = 6 squarings, whatever X is.

    torch.matrix_exp chooses both by the norm of X, for which the host waits for the GPU.
    """
    small, eye = X / 2**SQUARINGS, torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    series = eye / math.factorial(DEGREE)
    for power in reversed(range(DEGREE)):
        series = small @ series + eye / math.factorial(power)
    for _ in range(SQUARINGS):
        series = series @ series
    return series


def skew(M: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """The skew part of M, (M − Mᵀ) / 2."""
    return (M - M.mT) / 2
