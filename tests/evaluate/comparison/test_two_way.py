"""Differences of measures that are averaged over augmentations and images: both are drawn anew in a repetition."""

import math

import pytest
import torch
from scipy import stats

from care.evaluate.comparison.compare import FEWEST, _difference
from care.evaluate.comparison.paired import paired_difference, two_way_difference
from care.evaluate.comparison.quantities import Quantity
from care.evaluate.effects.effect import effect_of, family_measures, linearized
from care.geometry import Euclidean, source_of

V, N, D, TRIALS = 8, 200, 4, 12


def response_of(angles, generator):
    """Of an encoder in which every image is turned by its own strength times the angle of the augmentation."""
    sphere, strength = Euclidean(), torch.empty(N).exponential_(generator=generator).clamp(max=3)
    F = sphere.embed(torch.randn(N, D, generator=generator))
    pairs, source = F.unflatten(1, (-1, 2)), source_of(F)
    effects = []
    for angle in angles:
        turns = angle * strength[:, None]
        (c, s), (x, y) = (turns.cos(), turns.sin()), pairs.unbind(2)
        turned = torch.stack([c * x - s * y, s * x + c * y], 2).flatten(1)
        noise = 0.05 * torch.randn(N, D, generator=generator)
        effects.append(effect_of(F, sphere.embed(turned + noise), sphere, source))
    return family_measures(["a"] * V, [e.measures for e in effects], [], [e.per_image() for e in effects])


def test_two_encoders_of_one_law_are_seldom_called_different():
    """Over the augmentations alone, most such pairs are: all of them share the images."""
    generator = torch.Generator().manual_seed(0)
    alone, both = {"displacement": 0, "heldout_ratio": 0}, {"displacement": 0, "heldout_ratio": 0}
    for _ in range(TRIALS):
        angles = (0.3 + 0.9 * torch.rand(V, generator=generator)).tolist()
        responses = [response_of(angles, generator) for _ in range(2)]
        for name in both:
            units = [torch.tensor(getattr(response, name).values) for response in responses]
            alone[name] += paired_difference(*units).p < 0.05
            both[name] += two_way_difference(*units, *(response.per_image[name] for response in responses)).p < 0.05
    assert min(alone.values()) > 0.5 * TRIALS
    assert max(both.values()) <= 2


def test_a_real_difference_is_found():
    generator = torch.Generator().manual_seed(0)
    angles = torch.linspace(0.3, 1.2, V)
    a, b = response_of(angles.tolist(), generator), response_of((1.5 * angles).tolist(), generator)
    units = [torch.tensor(response.displacement.values) for response in (a, b)]
    assert two_way_difference(*units, a.per_image["displacement"], b.per_image["displacement"]).p < 0.001


def test_the_error_is_that_of_both_and_agrees_with_scipy():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, V, generator=generator)
    of_a, of_b = torch.randn(2, N, generator=generator)
    found = two_way_difference(a, b, of_a, of_b)
    squares = [x.double().var().item() / len(x) for x in (b - a, of_b - of_a)]
    freedom = math.floor(sum(squares) ** 2 / (squares[0] ** 2 / (V - 1) + squares[1] ** 2 / (N - 1)))
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(squares))
    assert (found.low, found.high) == pytest.approx((found.difference - half, found.difference + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.difference) / math.sqrt(sum(squares)), freedom))


def test_a_single_augmentation_is_compared_over_the_images():
    """A flip is not drawn."""
    of_a, of_b = torch.randn(2, N, generator=torch.Generator().manual_seed(0))
    found = two_way_difference(of_a.mean()[None], of_b.mean()[None], of_a, of_b, fewest=FEWEST)
    theirs = stats.ttest_rel(of_b.double().numpy(), of_a.double().numpy())
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-5)


def test_a_flip_that_is_no_rotation_of_either_encoder_is_seldom_a_difference():
    """The rotations of single images shrink to the identity, so that they all add 1: the ratio itself is less sure."""
    generator, sphere, called = torch.Generator().manual_seed(0), Euclidean(), 0
    for _ in range(TRIALS):
        found = []
        for _ in range(2):
            F = sphere.embed(torch.randn(120, 16, generator=generator))
            flip = effect_of(F, sphere.embed(F + 0.1 * torch.randn(120, 16, generator=generator)), sphere)
            found.append(family_measures(["flip"], [flip.measures], [], [flip.per_image()]))
        units = [torch.tensor(flip.heldout_ratio.values) for flip in found]
        called += two_way_difference(*units, *(flip.per_image["heldout_ratio"] for flip in found)).p < 0.05
    assert called <= 2


def test_an_augmentation_without_a_value_has_no_verdict():
    """A flip that hardly moves embeddings has no ratio, though single images may."""
    of_a, of_b = torch.randn(2, N, generator=torch.Generator().manual_seed(0))
    found = two_way_difference(torch.tensor([math.nan]), torch.tensor([0.5]), of_a, of_b)
    assert math.isnan(found.p)
    assert math.isnan(found.low)


def test_the_spread_of_a_ratio_of_sums_is_that_of_other_draws():
    generator = torch.Generator().manual_seed(0)
    squares = torch.randn(4000, 100, generator=generator).exp().double()
    errors = squares * torch.rand(4000, 100, generator=generator).double()
    ratios = errors.sum(1) / squares.sum(1)
    units = [linearized(e, s) for e, s in zip(errors[:300], squares[:300], strict=True)]
    assert torch.stack([u.mean() for u in units]).allclose(ratios[:300])
    error = torch.stack([u.var() / 100 for u in units]).mean().sqrt()
    assert error.item() == pytest.approx(ratios.std().item(), rel=0.1)


def test_without_what_the_images_add_there_is_no_verdict():
    a, b = (Quantity("z", "γ_f", 0.0, "lower", torch.arange(8.0) ** k, over="augmentations") for k in (1, 2))
    found = _difference(a, b)
    assert not math.isnan(found.low)
    assert math.isnan(found.p)
