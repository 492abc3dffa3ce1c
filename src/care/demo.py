"""`care demo`: the paper's claim on a laptop, in under two minutes, without data.

Encoders of 3-D point clouds are trained with SimCLR and with CARE, with random rotations of the cloud as augmentations.
Then each is asked how such a rotation acts on its embeddings of clouds it never saw.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care import geometry
from care.augment import PointParameters, PointPolicy, apply, compose
from care.data import Chains, generate_chains
from care.losses import CARE, InfoNCE, Uniformity
from care.models import DeepSet

POINTS = 32
BATCH, CHUNKS, STEPS = 128, 8, 600
POLICY = PointPolicy()

# Three points of the paper's ablation. CARE wants embeddings of one cloud to be close and to rotate; without the wish
# to be close, they rotate freely.
MODELS = {
    "SimCLR": CARE(InfoNCE(temperature=0.5), weight=0.0, chunks=CHUNKS),
    "CARE": CARE(InfoNCE(temperature=0.5), weight=30.0, chunks=CHUNKS),
    "uniformity + equivariance": CARE(Uniformity(), weight=30.0, chunks=CHUNKS),
}

Embed = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """What the demo measures of one encoder, averaged over sampled rotations."""

    invariance: float
    heldout_ratio: float
    composition_defect: float
    gamma: float
    wahba: float
    nearest_neighbor: float

    def to_json(self) -> dict[str, float]:
        """The numbers by name."""
        return asdict(self)


def train(loss: CARE, seed: int, steps: int = STEPS, tick: Callable[[], None] = lambda: None) -> Embed:
    """Algorithm 1 of the paper on 2,000 chains: an encoder onto the unit sphere of R¹⁶."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = DeepSet(out_features=16, width=64)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    clouds = generate_chains(2000, seed=1, points=POINTS).points
    for _ in range(steps):
        batch = clouds[torch.randint(len(clouds), (BATCH,), generator=generator)]
        z = [encoder(apply(batch, a)) for a in _four_views(generator)]
        optimizer.zero_grad()
        loss(z[:2], z[2:]).backward()
        optimizer.step()
        tick()
    return partial(_embed, encoder.eval())


def _four_views(generator: torch.Generator) -> list[PointParameters]:
    """Two views with an augmentation per sample, and two with an augmentation per chunk."""
    per_sample = [POLICY.sample(BATCH, (POINTS,), generator) for _ in range(2)]
    per_chunk = [POLICY.sample(CHUNKS, (POINTS,), generator).repeat(BATCH // CHUNKS) for _ in range(2)]
    return [*per_sample, *per_chunk]


@torch.no_grad()
def _embed(encoder: nn.Module, clouds: Float[Tensor, "n p 3"]) -> Float[Tensor, "n d"]:
    z: Tensor = geometry.Euclidean().embed(encoder(clouds))
    return z


def measure(embed: Embed, chains: Chains, augmentations: int = 10) -> Row:
    """How sampled rotations a, b and b∘a act on the embeddings of `chains`."""
    generator = torch.Generator().manual_seed(0)
    a, b = (POLICY.sample(augmentations, (POINTS,), generator) for _ in range(2))
    n, x = len(chains.points), chains.points
    F = embed(x)
    F_a, F_b, F_ba = (
        torch.stack([embed(apply(x, view(i))) for i in range(augmentations)])
        for view in (
            lambda i: a[i].repeat(n),
            lambda i: b[i].repeat(n),
            lambda i: compose(b[i].repeat(n), a[i].repeat(n)),
        )
    )
    return Row(
        invariance=geometry.invariance(F, F_a).mean().item(),
        heldout_ratio=geometry.heldout_ratio(F, F_a).mean().item(),
        composition_defect=geometry.composition_defect(F, F_a, F_b, F_ba).mean().item(),
        gamma=geometry.relative_equivariance(F, F_a).mean().item(),
        wahba=geometry.wahba_error(F, F_a).mean().item(),
        nearest_neighbor=_nearest_neighbor_accuracy(F, chains),
    )


def _nearest_neighbor_accuracy(F: Float[Tensor, "n d"], chains: Chains) -> float:
    similarity = (F @ F.mT).fill_diagonal_(-torch.inf)
    return (chains.labels[similarity.argmax(1)] == chains.labels).float().mean().item()


def orbits(embed: Embed, chains: Chains, count: int = 6, angles: int = 73) -> Float[Tensor, "count angles d"]:
    """The embeddings of the first few chains while each is turned through 360° about the vertical axis."""
    theta = torch.linspace(0, 2 * torch.pi, angles)
    zero, one = torch.zeros(angles), torch.ones(angles)
    columns = [theta.cos(), -theta.sin(), zero, theta.sin(), theta.cos(), zero, zero, zero, one]
    turns = torch.stack(columns, dim=1).view(angles, 3, 3)
    return torch.stack([embed(cloud @ turns.mT) for cloud in chains.points[:count]])
