"""Fit the generators A_k of R(θ) = exp(Σ_k θ_k A_k) to the embeddings of augmented images."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.augment import COLOR_OPERATIONS
from care.augment.coordinates import POINT_NAMES
from care.geometry import exponential, skew
from care.progress import ProgressCallback, silent
from care.randomness import generator_for
from care.steer.fit_statistics import FitStatistics
from care.steer.generators import regressed_logarithms, rotations, with_products
from care.steer.learned_rotation import LearnedRotation
from care.steer.representation import represent

STEPS, BATCH, LEARNING_RATE = 500, 32, 0.03
Products = Sequence[tuple[str, str]]
FLOOR = 0.02  # of the mean squared displacement: augmentations below it count less
# Interactions of color operations, and squares, since brightening and darkening both clamp and are not inverses of each
# other. The square of the hue is left out, since hue shifts form a one-parameter subgroup.
COLOR_PRODUCTS = tuple(pair for pair in combinations_with_replacement(COLOR_OPERATIONS, 2) if pair != ("hue", "hue"))


def fit_rotation(
    statistics: FitStatistics, seed: int = 0, progress: ProgressCallback = silent, products: Products = ()
) -> LearnedRotation:
    """Fit the R(θ) = exp(Σ_k θ_k A_k) that best predicts f(a(x)) from f(x), with equal weight for every family.

    Rotations of point clouds get a representation of SO(3) (`represent`). All other coordinates, and `products` of two
    of them, get free generators.
    """
    theta, C = with_products(statistics.theta, statistics.names, products), statistics.covariance
    fixed, represented = torch.zeros(theta.shape[1], *C.shape[1:]), 0
    if statistics.names == POINT_NAMES:
        represented = 3
        fixed[:represented], _ = represent(theta[:, :represented], C, statistics.squared_displacement)
    free = [k for k in range(represented, theta.shape[1]) if theta[:, k].any()]
    generators = fit_generators(statistics, theta, fixed, free, seed, progress) if free else fixed
    return LearnedRotation(
        statistics.names, statistics.center, statistics.basis, generators, tuple(products), statistics.output
    )


def fit_generators(
    statistics: FitStatistics,
    theta: Float[Tensor, "V k"],
    fixed: Float[Tensor, "k m m"],
    free: Sequence[int],
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> Float[Tensor, "k m m"]:
    """Minimize the mean over augmentations of ‖R(θ_a) F − F_a‖² / (‖F_a − F‖² + floor) over the `free` generators.

    Because of the division, every augmentation counts by the share of its squared displacement that is explained;
    otherwise crops, which move embeddings most, would dominate. Adam starts from the regressed logarithms of the
    Procrustes solutions of small augmentations, whose angles are most likely below π. θ is that of the statistics,
    followed by the products, whose generators start from 0.
    """
    C, near = statistics.covariance, _nearest(statistics)
    start = torch.zeros_like(fixed)
    start[: len(statistics.names)] = regressed_logarithms(statistics.theta[near], C[near])
    A = start[free].requires_grad_()
    floor = FLOOR * statistics.squared_displacement.mean().clamp_min(1e-6)  # the mean is 0 for an invariant model
    C = C / (statistics.squared_displacement + floor)[:, None, None]
    adam = torch.optim.Adam([A], LEARNING_RATE)
    for step, rows in enumerate(_batches(statistics.families, seed)):
        adam.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
        R = rotations(fixed.index_add(0, torch.tensor(free), skew(A)), theta[rows], exponential)
        loss = -(R * C[rows]).sum((1, 2)).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        progress("fit", step + 1, STEPS)
    return fixed.index_add(0, torch.tensor(free), skew(A.detach()))


def _nearest(statistics: FitStatistics) -> Int[Tensor, " few"]:
    """The quarter of each family with the smallest θ, in units of the root mean square; at least four per coordinate.

    A family whose coordinates all vary in families of fewer coordinates is left out: where several coordinates vary,
    even the smallest θ may turn a plane by more than π.
    """
    size = (statistics.theta / statistics.theta.square().mean(0).sqrt().clamp_min(1e-9)).norm(dim=1)
    names = dict.fromkeys(statistics.families)
    members = {name: torch.tensor([i for i, of in enumerate(statistics.families) if of == name]) for name in names}
    varies = {name: statistics.theta[rows].any(0) for name, rows in members.items()}
    near, seen = list[Tensor](), torch.zeros(statistics.theta.shape[1], dtype=torch.bool)
    for name in sorted(members, key=lambda name: int(varies[name].sum())):
        if (varies[name] & ~seen).any():
            rows, seen = members[name], seen | varies[name]
            near.append(rows[size[rows].argsort()[: max(4 * int(varies[name].sum()), len(rows) // 4)]])
    return torch.cat(near)


def _batches(families: Sequence[str], seed: int) -> list[Int[Tensor, " batch"]]:
    """The augmentations of every step: all families are equally likely, however many augmentations they have."""
    count = Counter(families)
    weights = torch.tensor([1 / count[family] for family in families])
    generator = generator_for("cpu", seed, "steer", "fit")
    return list(torch.multinomial(weights, STEPS * BATCH, replacement=True, generator=generator).split(BATCH))
