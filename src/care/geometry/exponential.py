"""The matrix exponential with a fixed number of products, so that the host never waits for the GPU."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

# For skew matrices with angles below 40 (six revolutions), the truncation error is below the rounding of fp32.
SQUARINGS, DEGREE = 6, 8


def exponential(X: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """exp(X) = exp(X / 2^s)^(2^s), with the Taylor series up to degree 8 and s = 6 squarings, whatever X is.

    torch.matrix_exp chooses both from the norm of X, so the host must wait for the GPU.
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
