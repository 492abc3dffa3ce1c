"""A process's part of a contrastive loss: its own anchors against the images of all."""

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from care.losses import dcl, hard_negatives, info_nce

PARTS = [slice(0, 4), slice(4, 8), slice(8, 12)]


@pytest.mark.parametrize("tile", [None, 3])
@pytest.mark.parametrize("loss", [info_nce, dcl, hard_negatives])
def test_the_mean_over_parts_is_the_whole_in_value_and_gradient(loss, tile, generator):
    z = torch.randn(3, 12, 5, generator=generator, dtype=torch.float64)
    whole, parts = z.clone().requires_grad_(), z.clone().requires_grad_()
    expected = loss(*whole)
    found = torch.stack([loss(*parts, tile=tile, anchors=part) for part in PARTS]).mean()
    expected.backward()
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-10, atol=1e-12)


def test_a_part_is_the_softmax_of_its_own_rows(generator):
    """Rows 4 to 7 of both views among all 2N − 1 other embeddings."""
    z = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    both = normalize(z.flatten(0, 1))
    similarity = (both @ both.T / 0.2).fill_diagonal_(-torch.inf)
    rows = torch.cat([torch.arange(4, 8), torch.arange(16, 20)])
    literal = cross_entropy(similarity[rows], torch.arange(24).roll(12)[rows])
    torch.testing.assert_close(info_nce(*z, temperature=0.2, anchors=PARTS[1]), literal)


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The largest matrix product."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            self.size = max(self.size, out.numel())
        return out


def test_a_part_compares_no_more_than_its_own_anchors(generator):
    with Largest() as products:
        info_nce(*torch.randn(2, 12, 5, generator=generator), anchors=PARTS[0])
    assert products.size == (2 * 4) * (2 * 12)
