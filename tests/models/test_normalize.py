"""The statistics of BatchNorm's formula where its guess of the mean is poor."""

import torch

from care.models.normalize import normalize_parts


def test_the_variance_of_several_processes_survives_a_poor_guess(generator):
    """Mean 300, deviation 1, guess 0: in one pass of float32, (μ − s)²/σ² = 9·10⁴ would cost five of seven digits."""
    x = 300 + torch.randn(64, 3, 4, 4, generator=generator)
    out, mean, variance = normalize_parts(x, None, None, None, 2, 1e-5, reduce=lambda sums: sums)
    parts = x.double().unflatten(0, (2, -1))
    exact = parts.var((1, 3, 4), correction=1)
    torch.testing.assert_close(variance.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(mean.double(), parts.mean((1, 3, 4)), rtol=1e-6, atol=0)
    centered = parts - parts.mean((1, 3, 4), keepdim=True)
    expected = centered / (parts.var((1, 3, 4), correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(out.double().unflatten(0, (2, -1)), expected, rtol=0, atol=1e-3)


def test_sums_of_two_processes_are_those_of_one(generator):
    """What two halves send is added up by hand; each then normalizes its half as one process would."""
    x, sent = torch.randn(8, 3, 2, 2, generator=generator, dtype=torch.float64), []

    def note(sums):
        sent.append(sums.clone())
        return sums

    halves = x.unflatten(0, (2, 2, -1)).unbind(1)  # of each of two parts, each process holds one half
    for half in halves:
        normalize_parts(half.flatten(0, 1), None, None, None, 2, 1e-5, note, 2)
    whole, mean, variance = normalize_parts(x, None, None, None, 2, 1e-5)
    for half, expected in zip(halves, whole.unflatten(0, (2, 2, -1)).unbind(1), strict=True):
        given = (half.flatten(0, 1), None, None, None, 2, 1e-5, lambda _: sent[0] + sent[1], 2)
        found = normalize_parts(*given)
        torch.testing.assert_close(found[0], expected.flatten(0, 1))
        torch.testing.assert_close(found[1], mean)
        torch.testing.assert_close(found[2], variance)
    assert sent[0].numel() == 2 * 2 * 3
