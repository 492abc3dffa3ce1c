"""Measures of collapse against their formulas, and on points whose rank and spread are known beforehand."""

import math

import pytest
import torch

from care.geometry import alignment, collapse, effective_rank, gaussian_uniformity, rankme, spectrum


def points(n, d, generator, rank=None):
    """Gaussian points that fill `rank` of d dimensions evenly, in a random orientation."""
    rank = rank or d
    basis = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0][:rank]
    flat = torch.linalg.qr(torch.randn(n, rank, generator=generator, dtype=torch.float64))[0]
    return flat @ basis


@pytest.mark.parametrize(("n", "d"), [(50, 20), (20, 50)])
def test_rankme_is_its_formula(n, d, generator):
    Z = torch.randn(n, d, generator=generator) + 2
    sigma = torch.linalg.svdvals(Z.double())
    p = [s / sum(sigma.tolist()) + 1e-7 for s in sigma.tolist()]
    assert rankme(Z).item() == pytest.approx(math.exp(-sum(x * math.log(x) for x in p)), rel=1e-5)


@pytest.mark.parametrize(("n", "d"), [(50, 20), (20, 50)])
def test_effective_rank_is_its_formula(n, d, generator):
    F = torch.randn(n, d, generator=generator, dtype=torch.float64) * torch.rand(d, generator=generator) + 2
    eigenvalues = torch.linalg.eigvalsh(torch.cov(F.mT, correction=0)).clamp_min(0)
    p = (eigenvalues / eigenvalues.sum()).tolist()
    entropy = -sum(x * math.log(x) for x in p if x > 0)
    assert effective_rank(spectrum(F)).item() == pytest.approx(math.exp(entropy), rel=1e-6)
    torch.testing.assert_close(spectrum(F)[:9].square(), eigenvalues.flip(0)[:9])
    assert len(spectrum(F)) == min(n, d)


@pytest.mark.parametrize("rank", [1, 3, 16])
def test_points_of_a_rank_have_that_rank(rank, generator):
    Z = points(500, 16, generator, rank).float()
    assert rankme(Z).item() == pytest.approx(rank, rel=1e-4)
    assert effective_rank(spectrum(Z)).item() == pytest.approx(rank, rel=0.02)


def test_only_rankme_counts_the_mean(generator):
    Z = points(500, 16, generator, 4) + 100 * torch.ones(16, dtype=torch.float64)
    assert rankme(Z).item() < 1.01
    assert effective_rank(spectrum(Z)).item() == pytest.approx(4, rel=0.02)


def test_collapsed_points(generator):
    """One point for all images: rank 1 with its mean, 0 without, none apart."""
    Z = torch.randn(1, 16, generator=generator).repeat(300, 1)
    assert rankme(Z).item() == pytest.approx(1, abs=1e-3)
    assert effective_rank(spectrum(Z)).item() == 0
    assert gaussian_uniformity(Z).item() == pytest.approx(0, abs=1e-5)
    assert alignment(Z, 3 * Z).item() == pytest.approx(0, abs=1e-10)
    assert rankme(torch.zeros(5, 3)).item() == 0


def test_alignment_is_its_formula(generator):
    F, F_a = torch.randn(2, 4, 30, 8, generator=generator)
    literal = [
        sum(((x / x.norm() - y / y.norm()) ** 2).sum() for x, y in zip(*pair, strict=True)) / 30
        for pair in zip(F, F_a, strict=True)
    ]
    torch.testing.assert_close(alignment(F, F_a), torch.stack(literal))


def test_uniformity_is_its_formula(generator, monkeypatch):
    F = torch.randn(31, 8, generator=generator)
    distances = torch.pdist(torch.nn.functional.normalize(F.double()))
    expected = pytest.approx(distances.square().mul(-2).exp().mean().log().item(), rel=1e-5)
    assert gaussian_uniformity(F).item() == expected
    monkeypatch.setattr(collapse, "PAIRS_AT_ONCE", 100)
    assert gaussian_uniformity(F).item() == expected


def test_uniform_points_of_the_sphere_have_the_integral(generator):
    """In three dimensions cosines are uniform: ∫ exp(4 (t − 1)) dt/2 = (1 − e⁻⁸)/8."""
    F = torch.randn(4000, 3, generator=generator)
    assert gaussian_uniformity(F).item() == pytest.approx(math.log((1 - math.exp(-8)) / 8), abs=0.01)


def test_of_many_rows_evenly_spaced_ones_are_taken(generator, monkeypatch):
    """The first would be those of the first classes."""
    monkeypatch.setattr(collapse, "ROWS", 40)
    Z = torch.randn(80, 8, generator=generator)
    assert torch.equal(rankme(Z), rankme(Z[::2]))
    assert torch.equal(gaussian_uniformity(Z), gaussian_uniformity(Z[::2]))


@pytest.mark.parametrize("measure", [rankme, spectrum, gaussian_uniformity, lambda z: alignment(z, z)])
def test_what_is_not_finite_is_refused(measure):
    with pytest.raises(ValueError, match="points must be finite"):
        measure(torch.full((4, 3), torch.nan))


def test_outputs_of_zero_are_one_point():
    dead = torch.zeros(50, 8)
    assert gaussian_uniformity(dead) == 0
    assert alignment(dead, dead) == 0


def test_rounding_makes_no_embedding_less_uniform_than_one_point(generator):
    assert gaussian_uniformity((torch.randn(1, 7, generator=generator) * 0.3).expand(200, 7)) <= 0
