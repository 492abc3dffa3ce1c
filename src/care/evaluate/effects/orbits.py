"""The orbit of an embedding as its point cloud rotates."""

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.embedder import EUCLIDEAN, Embed, equivariant_output

ANGLES = 73  # 0° to 360° in steps of 5°


def orbits(embed: Embed, clouds: Float[Tensor, "n p 3"]) -> Float[Tensor, "n angles d"]:
    """The embeddings, on the unit sphere, of clouds while each is rotated by 360° about the vertical axis.

    With a split embedding, the orbit is that of the equivariant part.
    """
    theta = torch.linspace(0, 2 * torch.pi, ANGLES)
    zero, one = torch.zeros(ANGLES), torch.ones(ANGLES)
    columns = [theta.cos(), -theta.sin(), zero, theta.sin(), theta.cos(), zero, zero, zero, one]
    rotations = torch.stack(columns, dim=1).view(ANGLES, 3, 3).to(clouds)
    with torch.no_grad():
        embedded = [embed(cloud @ rotations.mT) for cloud in clouds]
    return torch.stack([EUCLIDEAN.embed(found[equivariant_output(found)]) for found in embedded])
