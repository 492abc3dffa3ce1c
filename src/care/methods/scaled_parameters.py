"""Standardized coordinates θ, the input or target of the networks of AugSelf, EquiMod, SIE and others."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment import PointPolicy, coordinates, relative
from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.augment.naming import Policy
from care.objective import Context

DRAWN = 4096  # augmentations from which the range and spread of θ are estimated


class ScaledParameters(nn.Module):
    """θ_k / σ_k, σ_k the standard deviation of θ_k over the views, of one policy or two. θ = 0 stays the identity.

    A coordinate that no view changes stays 0.
    """

    std: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.names, std = names_of(context), spread(context)
        self.register_buffer("std", torch.where(std > 0, std, 1.0))

    def forward(self, theta: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """The coordinates, standardized."""
        return theta.to(self.std) / self.std

    def between(self, theta1: Float[Tensor, "n k"], theta2: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """The standardized coordinates of the change from a view with θ1 to a view with θ2."""
        return self(relative(theta1, theta2))


def names_of(context: Context) -> tuple[str, ...]:
    """The names of the coordinates θ."""
    return POINT_NAMES if context.clouds else IMAGE_NAMES


def drawn_names(context: Context) -> list[str]:
    """The names of the coordinates that the views change."""
    return [name for name, std in zip(names_of(context), spread(context).tolist(), strict=True) if std > 0]


def spread(context: Context) -> Float[Tensor, " k"]:
    """The standard deviations of θ over the views."""
    return coordinates_of_views(context).std(0)


def coordinates_of_views(context: Context) -> Float[Tensor, "count k"]:
    """θ of sampled augmentations, of both policies if the second view has its own."""
    assert context.policy is not None
    policies = [context.policy] if context.second_policy is None else [context.policy, context.second_policy]
    return torch.cat([drawn_coordinates(policy) for policy in policies])


@cache
def drawn_coordinates(policy: Policy) -> Float[Tensor, "count k"]:
    """θ of DRAWN augmentations from `policy`, with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    if isinstance(policy, PointPolicy):
        return coordinates(policy.sample(DRAWN, (1,), generator))
    return coordinates(policy.sample(DRAWN, (policy.size, policy.size), generator), policy.center)
