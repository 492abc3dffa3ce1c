"""DeepSets: encoders of point clouds that do not depend on the order of the points."""

from jaxtyping import Float
from torch import Tensor, nn


class DeepSet(nn.Module):
    """ρ(mean_k φ(x_k)) with φ and ρ multi-layer perceptrons: a cloud [p, 3] to a vector of `out_features`."""

    def __init__(self, out_features: int = 16, width: int = 128) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.cloud = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.GELU(), nn.Linear(width, out_features)
        )

    def forward(self, clouds: Float[Tensor, "n p 3"]) -> Float[Tensor, "n out"]:
        """One vector per cloud."""
        return self.cloud(self.point(clouds).mean(dim=1))
