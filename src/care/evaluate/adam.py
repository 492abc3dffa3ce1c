"""Adam for a few tensors: torch.optim.Adam loads a compiler first, which takes longer than a small fit."""

from torch import Tensor

BETA2, EPSILON = 0.999, 1e-8


def adam_step(θ: Tensor, gradient: Tensor, m: Tensor, v: Tensor, γ: float | Tensor, step: int, β: float = 0.9) -> None:
    """m ← βm + (1 − β)g, v ← β₂v + (1 − β₂)g², θ ← θ − γ m̂/(√v̂ + ε), with m̂ = m/(1 − βᵗ), v̂ = v/(1 − β₂ᵗ)."""
    m.lerp_(gradient, 1 - β)
    v.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    root = v.sqrt().div_((1 - BETA2**step) ** 0.5).add_(EPSILON)
    θ.sub_(m / root * (γ / (1 - β**step)))
