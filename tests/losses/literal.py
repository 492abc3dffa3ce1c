"""Each loss as its formula, one number at a time, in float64: slow, and not written by looking at the library."""

import math
from itertools import permutations

import torch

from care.geometry import Euclidean, Minkowski, Symplectic


def unit(v):
    return v / v.norm()


def cos(u, v):
    return (unit(u) @ unit(v)).item()


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def different_images(*views):
    """For each embedding and each other view: (itself, its image there, all other images in both of these views)."""
    n = len(views[0])
    for own, other in permutations(views, 2):
        for i in range(n):
            yield own[i], other[i], [z[j] for z in (own, other) for j in range(n) if j != i]


def info_nce(*views, temperature):
    def anchor(z, positive, negatives):
        e = math.exp(cos(z, positive) / temperature)
        return -math.log(e / (e + sum(math.exp(cos(z, other) / temperature) for other in negatives)))

    return mean(anchor(*triple) for triple in different_images(*views))


def dcl(*views, temperature):
    def anchor(z, positive, negatives):
        e = math.exp(cos(z, positive) / temperature)
        return -math.log(e / sum(math.exp(cos(z, other) / temperature) for other in negatives))

    return mean(anchor(*triple) for triple in different_images(*views))


def hard_negatives(*views, temperature, class_prior, concentration):
    def anchor(z, positive, negatives):
        N, e = len(negatives), math.exp(cos(z, positive) / temperature)
        similar = [math.exp(cos(z, other) / temperature) for other in negatives]
        importance = [s**concentration for s in similar]
        weighted = sum(w * s for w, s in zip(importance, similar, strict=True)) / mean(importance)
        true = (-class_prior * N * e + weighted) / (1 - class_prior)
        return -math.log(e / (e + max(true, N * math.exp(-1 / temperature))))

    return mean(anchor(*triple) for triple in different_images(*views))


def mocov3(q1, q2, k1, k2, temperature):
    def cross_entropy(q, k):
        logits = torch.tensor([[cos(a, b) / temperature for b in k] for a in q], dtype=torch.float64)
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(q))).item()

    return 2 * temperature * (cross_entropy(q1, k2) + cross_entropy(q2, k1))


def queue_info_nce(query, key, queue, temperature):
    def anchor(q, k):
        e = math.exp(cos(q, k) / temperature)
        return -math.log(e / (e + sum(math.exp(cos(q, other) / temperature) for other in queue)))

    return mean(anchor(q, k) for q, k in zip(query, key, strict=True))


def invariance(z1, z2, variant, temperature):
    pairs = list(zip(z1, z2, strict=True))
    return {
        "paper": mean((unit(a) - unit(b)).norm().item() for a, b in pairs),
        "authors": mean(-cos(a, b) / temperature for a, b in pairs),
        "wang-isola": mean((unit(a) - unit(b)).norm().item() ** 2 for a, b in pairs),
    }[variant]


def orbit_uniformity(z1, z2, chunks):
    size, pairs = len(z1) // chunks, list(zip(z1, z2, strict=True))
    parts = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    return mean(math.log(mean(math.exp(cos(a, b)) for a, b in part)) for part in parts)


def slice_uniformity(z1, z2, chunks):
    size = len(z1) // chunks
    slices = [view[i : i + size] for view in (z1, z2) for i in range(0, len(view), size)]
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    return mean(math.log(mean(math.exp(cos(part[i], part[j])) for i, j in pairs)) for part in slices)


def uniformity(z1, z2, variant, temperature):
    triples = list(different_images(z1, z2))
    return {
        "paper": math.log(mean(math.exp(cos(z, w)) for z, _, others in triples for w in others)),
        "authors": mean(math.log(sum(math.exp(cos(z, w) / temperature) for w in others)) for z, _, others in triples),
        "wang-isola": math.log(
            mean(math.exp(-2 * (unit(z) - unit(w)).norm().item() ** 2) for z, _, others in triples for w in others)
        ),
    }[variant]


def hyperbolic(x, y):
    """−x_0 y_0 + x_s·y_s of the two points of the hyperboloid above the space coordinates."""
    return (x[1:] @ y[1:] - math.sqrt(1 + x[1:] @ x[1:]) * math.sqrt(1 + y[1:] @ y[1:])).item()


def symplectic(x, y):
    k = len(x) // 2
    return sum((x[i] * y[i + k] - x[i + k] * y[i]).item() for i in range(k))


BILINEAR = {Euclidean(): cos, Minkowski(): hyperbolic, Symplectic(): symplectic}


def equivariance(z1, z2, chunks, form):
    m, B = len(z1) // chunks, BILINEAR[form]
    return mean(
        (B(z1[c * m + i], z1[c * m + j]) - B(z2[c * m + i], z2[c * m + j])) ** 2
        for c in range(chunks)
        for i in range(m)
        for j in range(m)
        if i != j
    )


def authors_equivariance(z1, z2, chunks):
    """The authors' scaling: for each image, twice the sum over its partners; then the mean over images."""
    m = len(z1) // chunks
    partners = [[j for j in range(i // m * m, i // m * m + m) if j != i] for i in range(len(z1))]
    return mean(2 * sum((cos(z1[i], z1[j]) - cos(z2[i], z2[j])) ** 2 for j in partners[i]) for i in range(len(z1)))


def barlow_twins(z1, z2, redundancy):
    n, d = z1.shape

    def standardized(z, j):
        column = z[:, j]
        variance = ((column - column.mean()) ** 2).sum() / n
        return (column - column.mean()) / (variance + 1e-5).sqrt()

    C = [[(standardized(z1, i) @ standardized(z2, j)).item() / n for j in range(d)] for i in range(d)]
    return sum((1 - C[i][i]) ** 2 for i in range(d)) + redundancy * sum(
        C[i][j] ** 2 for i in range(d) for j in range(d) if i != j
    )


def vicreg(z1, z2, invariance, variance, covariance):
    n, d = z1.shape
    distance = mean(((z1[i, j] - z2[i, j]) ** 2).item() for i in range(n) for j in range(d))

    def cov(z):
        return torch.cov(z.T)

    hinge = mean(max(0.0, 1 - math.sqrt(cov(z)[j, j].item() + 1e-4)) for z in (z1, z2) for j in range(d))
    off = sum(cov(z)[i, j].item() ** 2 / d for z in (z1, z2) for i in range(d) for j in range(d) if i != j)
    return invariance * distance + variance * hinge + covariance * off


def parameter_difference(predicted, difference):
    n, k = predicted.shape
    return mean((predicted[i, j].item() - difference[i, j].item()) ** 2 for i in range(n) for j in range(k))


def differ(logits, differs):
    """The cross-entropy of whether two views differ in something that is on or off."""
    chances = [1 / (1 + math.exp(-logit)) for logit in logits.flatten().tolist()]
    return mean(-math.log(p if d else 1 - p) for p, d in zip(chances, differs.flatten().tolist(), strict=True))


def quarter_turns(logits):
    """Of logits[k][i], for image i after k quarter turns."""

    def chance(row, k):
        return math.exp(row[k]) / sum(math.exp(value) for value in row)

    return mean(-math.log(chance(row.tolist(), k)) for k, rows in enumerate(logits) for row in rows)


def mapped(z, omega, maps):
    """(I + Σ_k ω_k B_k) z, one number at a time."""
    n, d = z.shape

    def entry(i, row, column):
        return (row == column) + sum(omega[i, k].item() * maps[k, row, column].item() for k in range(len(maps)))

    return torch.tensor(
        [[sum(entry(i, r, c) * z[i, c].item() for c in range(d)) for r in range(d)] for i in range(n)],
        dtype=torch.float64,
    )


def linear_map(predicted, target):
    return mean((unit(p) - unit(t)).norm().item() ** 2 for p, t in zip(predicted, target, strict=True))


def jensen_shannon(p, q):
    def divergence(row, other):
        return sum(a * math.log(2 * a / (a + b)) for a, b in zip(row, other, strict=True) if a > 0)

    rows = list(zip(p.tolist(), q.tolist(), strict=True))
    return mean((divergence(a, b) + divergence(b, a)) / 2 for a, b in rows)


def leave_one_out(query, keys, positive, temperature):
    def anchor(i):
        every = [math.exp(cos(query[i], key[j]) / temperature) for key in keys for j in range(len(key))]
        return -math.log(math.exp(cos(query[i], keys[positive][i]) / temperature) / sum(every))

    return mean(anchor(i) for i in range(len(query)))


def simsiam(p1, p2, z1, z2):
    return mean(-cos(p, z) for p, z in [*zip(p1, z2, strict=True), *zip(p2, z1, strict=True)])


def byol(p1, p2, z1, z2):
    def distances(p, z):
        return mean((unit(a) - unit(b)).norm().item() ** 2 for a, b in zip(p, z, strict=True))

    return distances(p1, z2) + distances(p2, z1)
