import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, VICRegLoss

from care.losses import info_nce, invariance, uniformity, vicreg


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (16, 8), (100, 32)])
def test_agrees_with_a_published_implementation(temperature, n, d, generator):
    z1, z2 = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    labels = torch.arange(n).repeat(2)
    published = NTXentLoss(temperature)(torch.cat([z1, z2]), labels)
    torch.testing.assert_close(info_nce(z1, z2, temperature), published)


def test_vicreg_agrees_with_a_published_implementation(generator):
    z1, z2 = torch.randn(2, 16, 8, generator=generator)
    published = VICRegLoss()(z1, ref_emb=z2)
    torch.testing.assert_close(vicreg(z1, z2), published)


@pytest.mark.parametrize("tile", [1, 7, 64, 1000])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_tiled_equals_plain_in_value_and_gradient(tile, temperature, generator):
    z = torch.randn(2, 33, 16, generator=generator)
    plain, tiled = z.clone().requires_grad_(), z.clone().requires_grad_()
    loss, loss_tiled = info_nce(*plain, temperature), info_nce(*tiled, temperature, tile=tile)
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


def test_tiles_of_nothing_are_refused(generator):
    with pytest.raises(ValueError, match="at least one anchor"):
        info_nce(*torch.randn(2, 4, 4, generator=generator), tile=0)


def test_the_authors_terms_bracket_info_nce(generator):
    """log(p + Σn) > log Σn: their alignment plus uniformity is InfoNCE without the positive in the denominator."""
    z1, z2 = torch.randn(2, 32, 8, generator=generator, dtype=torch.float64)
    terms = invariance(z1, z2, "authors", 0.5) + uniformity(z1, z2, "authors", 0.5)
    gap = info_nce(z1, z2, 0.5) - terms
    assert 0 < gap < 0.2


def test_embeddings_are_put_on_the_sphere(generator):
    z1, z2 = torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(info_nce(z1 * 7, z2 * 0.1), info_nce(z1, z2))
