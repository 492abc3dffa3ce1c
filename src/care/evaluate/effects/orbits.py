"""The path of an embedding while its point cloud is turned."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.observer import EUCLIDEAN, Embed

ANGLES = 73  # steps of 5°, and back to where it began


def orbits(embed: Embed, clouds: Float[Tensor, "n p 3"], angles: int = ANGLES) -> Float[Tensor, "n {angles} d"]:
    """The embeddings, on the unit sphere, of clouds while each is turned through 360° about the vertical axis."""
    theta = torch.linspace(0, 2 * torch.pi, angles)
    zero, one = torch.zeros(angles), torch.ones(angles)
    columns = [theta.cos(), -theta.sin(), zero, theta.sin(), theta.cos(), zero, zero, zero, one]
    turns = torch.stack(columns, dim=1).view(angles, 3, 3).to(clouds)
    with torch.no_grad():
        return torch.stack([EUCLIDEAN.embed(embed(cloud @ turns.mT)["embedding"]) for cloud in clouds])
