"""Embeddings that are really turned by known rotations."""

import torch

from care.augment import PointPolicy
from care.data import Samples
from care.evaluate import Observer
from care.steer import Evidence
from care.steer.coordinates import IMAGE_NAMES


def unit(generator, n, d):
    return torch.nn.functional.normalize(torch.randn(n, d, generator=generator), dim=1)


def skew_matrix(generator, d):
    M = torch.randn(d, d, generator=generator) / d**0.5
    return M - M.mT


def evidence_of(F, F_a, theta, families, names=IMAGE_NAMES):
    """What `gather` would have found, had a model given these embeddings F [n, d] and F_a [V, n, d]."""
    V, n, d = F_a.shape
    kept = torch.arange(n).expand(V, n)
    return Evidence(
        names=names,
        center=1.0,
        families=tuple(families),
        theta=theta,
        covariance=F_a.mT @ F / n,
        displacement=(F_a - F).square().sum(2).mean(1),
        basis=torch.eye(d),
        F=F,
        kept=kept,
        F_kept=F_a,
    )


def harmonics(x):
    """Degrees 1 and 2 of unit vectors, and a constant: [n, 3] → [n, 9], as polynomials written out."""
    a, b, c = x.unbind(-1)
    second = [a * b, b * c, c * a, (a * a - b * b) / 2, (3 * c * c - 1) / (2 * 3**0.5)]
    constant = torch.ones_like(a)
    return torch.stack([a, b, c, *(2 * y for y in second), constant], dim=-1)


def planted_clouds(n, generator, size=1.0):
    """Clouds of four points: the axes, from which the rotation can be read, and one at random."""
    axes = torch.eye(3).expand(n, 3, 3)
    return size * torch.cat([axes, unit(generator, n, 3)[:, None]], dim=1)


def observer_of(embed, clouds, policy=None):
    samples = Samples(clouds, torch.full((len(clouds),), -1), ())
    return Observer(lambda x: {"out": embed(x)}, samples, policy or PointPolicy(), "rotations", torch.device("cpu"))
