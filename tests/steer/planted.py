"""Embeddings that known rotations act on."""

import math

import torch
from matplotlib.colors import hsv_to_rgb

from care.augment import ImagePolicy, PointPolicy
from care.augment.coordinates import IMAGE_NAMES
from care.data import Samples
from care.evaluate import Embedder
from care.evaluate.retrieval.hue import mean_hue
from care.steer import FitStatistics, LearnedRotation


def unit(generator, n, d):
    return torch.nn.functional.normalize(torch.randn(n, d, generator=generator), dim=1)


def skew_matrix(generator, d):
    M = torch.randn(d, d, generator=generator) / d**0.5
    return M - M.mT


def planted_statistics(F, F_a, theta, families, names=IMAGE_NAMES):
    """What `statistics_of` would have found, had a model given these embeddings F [n, d] and F_a [V, n, d]."""
    V, n, d = F_a.shape
    kept = torch.arange(n).expand(V, n)
    return FitStatistics(
        output="embedding",
        names=names,
        center=1.0,
        families=tuple(families),
        theta=theta,
        covariance=F_a.mT @ F / n,
        squared_displacement=(F_a - F).square().sum(2).mean(1),
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
    return Embedder(lambda x: {"out": embed(x)}, samples, policy or PointPolicy(), "rotations", torch.device("cpu"))


CLASSES = 4


def colored(hues):
    """Pictures of one pure color each, but for two columns whose gray level says the class: it goes round."""
    n, labels = len(hues), torch.arange(len(hues)) % CLASSES
    pure = torch.stack([hues % 1, torch.ones(n), torch.ones(n)], dim=1)
    colors = torch.from_numpy(hsv_to_rgb(pure.numpy())).float()
    pictures = colors[:, :, None, None].repeat(1, 1, 8, 8)
    pictures[:, :, :, 6:] = (labels / CLASSES)[:, None, None, None]
    return Samples((255 * pictures).round().to(torch.uint8), labels, tuple("abcd"))


def by_hue(views):
    """An encoder that a hue shift rotates: the hue on a circle, and the class in other dimensions."""
    angle = 2 * math.pi * mean_hue(views[:, :, :, :6]).angle
    classes = torch.nn.functional.one_hot((CLASSES * views[:, 0, 0, 7]).round().long(), CLASSES)
    return torch.cat([angle.cos()[:, None], angle.sin()[:, None], classes], dim=1) / 2**0.5


def by_class(views):
    """An encoder that is invariant to hue shifts."""
    return torch.cat([torch.tensor([1.0, 0.0]).expand(len(views), 2), by_hue(views)[:, 2:]], dim=1)


def hue_rotation(turns=1.0):
    """The rotation of `by_hue`: once round the hue circle is one full turn of the first two dimensions."""
    generators = torch.zeros(len(IMAGE_NAMES), 2 + CLASSES, 2 + CLASSES)
    generators[IMAGE_NAMES.index("hue"), 0, 1] = -2 * math.pi * turns
    generators[IMAGE_NAMES.index("hue"), 1, 0] = 2 * math.pi * turns
    return LearnedRotation(IMAGE_NAMES, 1.0, torch.eye(2 + CLASSES), generators)


def color_embedder(samples, embed=by_hue):
    policy = ImagePolicy(size=8, hue=0.25)
    return Embedder(lambda x: {"out": embed(x)}, samples, policy, "hues", torch.device("cpu"))
