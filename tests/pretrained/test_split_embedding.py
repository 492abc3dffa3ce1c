"""Split embeddings z = (c, r), and the joined embedding (c/‖c‖, r/‖r‖)/√2."""

import pytest
import torch

from care.geometry import wahba_error
from care.pretrained.model import joined, split_embedding


def test_both_parts_have_equal_weight_however_long_they_are(generator):
    c, r = torch.randn(5, 7, generator=generator), 100 * torch.randn(5, 3, generator=generator)
    Z = joined(c, r)
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(5))
    between = torch.nn.functional.cosine_similarity
    cosines = [between(x[:1], x) for x in (c, r)]
    torch.testing.assert_close(Z @ Z[0], (cosines[0] + cosines[1]) / 2)


def test_a_rotation_of_one_part_is_a_rotation_of_the_joined_embedding(generator):
    c, r = torch.randn(40, 6, generator=generator), torch.randn(40, 3, generator=generator)
    Q = torch.linalg.qr(torch.randn(3, 3, generator=generator)).Q
    before, after = joined(c, r), joined(2 * c, r @ (Q * Q.det()).mT)
    assert wahba_error(before, after) < 1e-4
    assert (after - before).norm(dim=1).mean() > 0.5


def test_the_equivariant_part_is_the_last_dimensions(generator):
    z = torch.randn(4, 7, generator=generator)
    c, r = split_embedding(z, 2)
    assert torch.equal(c, z[:, :5])
    assert torch.equal(r, z[:, 5:])


@pytest.mark.parametrize("equivariant_dim", [-1, 0, 7, 8])
def test_both_parts_must_have_dimensions(generator, equivariant_dim):
    with pytest.raises(ValueError, match=f"an equivariant part of {equivariant_dim} dimensions cannot be split off 7"):
        split_embedding(torch.randn(4, 7, generator=generator), equivariant_dim)
