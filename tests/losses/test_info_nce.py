from itertools import combinations

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, VICRegLoss
from torch.nn.functional import cross_entropy

from care.losses import dcl, hard_negatives, info_nce, invariance, uniformity, vicreg


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (16, 8), (100, 32)])
def test_agrees_with_a_published_implementation(temperature, n, d, generator):
    z1, z2 = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    labels = torch.arange(n).repeat(2)
    published = NTXentLoss(temperature)(torch.cat([z1, z2]), labels)
    torch.testing.assert_close(info_nce(z1, z2, temperature=temperature), published)


def test_two_views_are_a_softmax_and_more_views_the_mean_over_pairs(generator):
    """The softmax of the positive among all 2N − 1 other embeddings, and of more views the mean over their pairs."""
    z = torch.randn(4, 20, 8, generator=generator, dtype=torch.float64)
    pairs = [info_nce(a, b, temperature=0.2) for a, b in combinations(z, 2)]
    both = torch.nn.functional.normalize(z[:2].flatten(0, 1))
    similarity = (both @ both.T / 0.2).fill_diagonal_(-torch.inf)
    positive = torch.arange(40).roll(20)
    torch.testing.assert_close(pairs[0], cross_entropy(similarity, positive), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(info_nce(*z, temperature=0.2), torch.stack(pairs).mean(), rtol=1e-12, atol=1e-12)


class Products(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the multiplications of matrix products."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mm.default:
            self.count += args[0].numel() * args[1].shape[1]
        return func(*args, **(kwargs or {}))


def test_two_views_are_multiplied_once_however_many_pairs_they_are_in(generator):
    z = torch.randn(4, 32, 8, generator=generator)
    with Products() as products:
        info_nce(*z)
    assert products.count == (4 * 32) ** 2 * 8


@pytest.mark.parametrize("loss", [info_nce, dcl, hard_negatives])
def test_the_regular_simplex_is_the_planted_minimum(loss, generator):
    """All views of an image at one vertex, images as far apart as can be: every way from there is up."""
    simplex = (torch.eye(6) - 1 / 6).double()
    least = loss(simplex, simplex, simplex)
    for size in (0.01, 0.3):
        for _ in range(10):
            away = simplex + size * torch.randn(3, 6, 6, generator=generator, dtype=torch.float64)
            assert loss(*away) > least


def test_without_a_prior_and_a_concentration_hard_negatives_are_info_nce(generator):
    z = torch.randn(3, 16, 8, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(hard_negatives(*z, class_prior=0.0, concentration=0.0), info_nce(*z))


def test_small_temperatures_do_not_overflow(generator):
    z = torch.randn(2, 16, 8, generator=generator).requires_grad_()
    for loss in (info_nce, dcl, hard_negatives):
        value = loss(*z, temperature=0.005)
        value.backward()
        assert value.isfinite()
        assert z.grad.isfinite().all()


@pytest.mark.usefixtures("unchecked")
def test_settings_without_a_name_and_single_views_are_refused(generator):
    z = torch.randn(4, 4, generator=generator)
    with pytest.raises(ValueError, match="settings must be passed by name"):
        info_nce(z, z, 0.5)
    with pytest.raises(ValueError, match="at least 2 views, got 1"):
        info_nce(z)


def test_vicreg_agrees_with_a_published_implementation(generator):
    z1, z2 = torch.randn(2, 16, 8, generator=generator)
    published = VICRegLoss()(z1, ref_emb=z2)
    torch.testing.assert_close(vicreg(z1, z2), published)


@pytest.mark.parametrize("tile", [1, 7, 64, 1000])
@pytest.mark.parametrize(("views", "temperature"), [(2, 0.07), (2, 0.5), (3, 0.2)])
def test_tiled_equals_plain_in_value_and_gradient(tile, views, temperature, generator):
    z = torch.randn(views, 33, 16, generator=generator)
    plain, tiled = z.clone().requires_grad_(), z.clone().requires_grad_()
    loss, loss_tiled = info_nce(*plain, temperature=temperature), info_nce(*tiled, temperature=temperature, tile=tile)
    loss.backward()
    loss_tiled.backward()
    torch.testing.assert_close(loss_tiled, loss, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(tiled.grad, plain.grad, atol=1e-5, rtol=1e-5)


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Records the number of elements of the largest tensor any operation makes."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(value, torch.Tensor):
                self.largest = max(self.largest, value.numel())
        return out


def test_tiled_never_makes_the_whole_matrix(generator):
    n, tile, d = 256, 16, 8
    z = torch.randn(2, n, d, generator=generator, requires_grad=True)
    with LargestTensor() as plain:
        info_nce(*z).backward()
    with LargestTensor() as tiled:
        info_nce(*z, tile=tile).backward()
    assert plain.largest == (2 * n) ** 2
    assert tiled.largest == tile * 2 * n


def test_empty_tiles_are_refused(generator):
    with pytest.raises(ValueError, match="at least one anchor"):
        info_nce(*torch.randn(2, 4, 4, generator=generator), tile=0)


def test_the_authors_terms_bracket_info_nce(generator):
    """log(p + Σn) > log Σn: their alignment plus uniformity is InfoNCE without the positive in the denominator."""
    z1, z2 = torch.randn(2, 32, 8, generator=generator, dtype=torch.float64)
    terms = invariance(z1, z2, "authors", 0.5) + uniformity(z1, z2, "authors", 0.5)
    gap = info_nce(z1, z2, temperature=0.5) - terms
    assert 0 < gap < 0.2
    torch.testing.assert_close(dcl(z1, z2, temperature=0.5), terms)


def test_embeddings_are_put_on_the_sphere(generator):
    z1, z2 = torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(info_nce(z1 * 7, z2 * 0.1), info_nce(z1, z2))


def test_a_list_of_views_is_told_how_to_pass_them(unchecked, generator):
    with pytest.raises((TypeError, ValueError), match="views"):
        info_nce(list(torch.randn(2, 4, 3, generator=generator)))
