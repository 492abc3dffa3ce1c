"""The baseline for R(θ): a network on the embedding and the augmentation's coordinates, as in EquiMod."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from care.progress import ProgressCallback, silent
from care.randomness import derive, generator_for
from care.steer.fit_statistics import FitStatistics

STEPS, BATCH, LEARNING_RATE = 600, 512, 1e-3


class Predictor(nn.Module):
    """p(z, θ) = (z + g(z, h(θ))) / ‖·‖ with a projection h and a network g, in EquiMod's form.

    The residual form spares p from learning to copy z. p(·, θ) is no rotation, has no inverse and does not compose.
    """

    def __init__(self, d: int, k: int, width: int = 256) -> None:
        super().__init__()
        self.scale: Tensor
        self.register_buffer("scale", torch.ones(k))
        self.project = nn.Linear(k, width // 2)
        self.step = nn.Sequential(nn.Linear(d + width // 2, width), nn.ReLU(), nn.Linear(width, d))

    def forward(self, z: Float[Tensor, "n d"], theta: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """The prediction of f(a(x)) from z = f(x) and the θ of each row's augmentation."""
        known = self.project(theta.to(z) / self.scale).relu()
        return F.normalize(z + self.step(torch.cat([z, known], dim=1)), dim=1)


def fit_predictor(
    statistics: FitStatistics, seed: int = 0, progress: ProgressCallback = silent, steps: int = STEPS
) -> Predictor:
    """Minimize ‖p(f(x), θ_a) − f(a(x))‖² over the kept pairs of images and augmentations, by Adam."""
    with torch.random.fork_rng(devices=[]):  # the global generator stays as it was
        torch.default_generator.manual_seed(derive(seed, "steer", "predictor"))
        predictor = Predictor(statistics.F.shape[1], statistics.theta.shape[1])
    spread = statistics.theta.std(0)
    predictor.scale.copy_(torch.where(spread > 0, spread, 1.0))
    adam = torch.optim.Adam(predictor.parameters(), LEARNING_RATE)
    generator = generator_for("cpu", seed, "steer", "pairs")
    V, s = statistics.kept.shape
    for step in range(steps):
        adam.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps)
        pair = torch.randint(V * s, (BATCH,), generator=generator)
        a, i = pair // s, pair % s
        predicted = predictor(statistics.F[statistics.kept[a, i]], statistics.theta[a])
        loss = (predicted - statistics.F_kept[a, i]).square().sum(1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        progress("predictor", step + 1, steps)
    return predictor.eval().requires_grad_(False)
