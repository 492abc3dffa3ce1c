"""DeepSets: encoders of point clouds that do not depend on the order of the points."""

from jaxtyping import Float
from torch import Tensor, nn

WIDTH = 128


class DeepSet(nn.Module):
    """ρ(mean_k φ(x_k)) with φ and ρ multi-layer perceptrons: a cloud [p, 3] to a vector of `out_features`."""

    def __init__(self, out_features: int = 16) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.cloud = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.GELU(), nn.Linear(WIDTH, out_features)
        )

    def forward(self, clouds: Float[Tensor, "n p 3"]) -> Float[Tensor, "n out"]:
        """One vector per cloud."""
        return self.cloud(self.point(clouds).mean(dim=1))
