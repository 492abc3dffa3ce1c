import literal
import pytest
import torch

from care.geometry import Euclidean, gram_error
from care.losses import equivariance, mean_weight


def test_one_rotation_per_chunk_costs_nothing(generator):
    z = Euclidean().embed(torch.randn(4, 8, 6, generator=generator, dtype=torch.float64))
    R = torch.stack([Euclidean().random_element(6, generator) for _ in range(4)])
    rotated = z @ R.mT
    assert equivariance(z.flatten(0, 1), rotated.flatten(0, 1), chunks=4) < 1e-30
    assert equivariance(z.flatten(0, 1), rotated.flatten(0, 1), chunks=2) > 1e-2


def test_one_chunk_is_the_gram_error(generator):
    z1, z2 = Euclidean().embed(torch.randn(2, 20, 6, generator=generator, dtype=torch.float64))
    torch.testing.assert_close(equivariance(z1, z2), gram_error(z1, z2))


@pytest.mark.parametrize(("batch", "chunks"), [(32, 2), (32, 8), (24, 12)])
def test_the_authors_scaling_is_a_conversion_of_the_weight(batch, chunks, generator):
    z1, z2 = torch.randn(2, batch, 6, generator=generator, dtype=torch.float64)
    ours = mean_weight(0.03, batch // chunks) * equivariance(z1, z2, chunks)
    assert ours.item() == pytest.approx(0.03 * literal.authors_equivariance(z1, z2, chunks))


def test_the_papers_weights_in_our_units():
    """CIFAR-10 (256 images in 16 chunks), CIFAR-100 (4 chunks), STL-10 (8 chunks)."""
    assert mean_weight(0.01, 256 // 16) == pytest.approx(0.30)
    assert mean_weight(0.001, 256 // 4) == pytest.approx(0.126)
    assert mean_weight(0.01, 256 // 8) == pytest.approx(0.62)


def test_the_diagonal_does_not_count():
    """The angle of an image with itself is no pair, also where a zero vector makes it change."""
    z1, z2 = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert equivariance(z1, z2) == 1


def test_chunks_must_divide_the_batch(generator):
    z1, z2 = torch.randn(2, 12, 4, generator=generator)
    with pytest.raises(ValueError, match="5 chunks do not divide a batch of 12; these do: 1, 2, 3, 4, 6"):
        equivariance(z1, z2, chunks=5)
    with pytest.raises(ValueError, match="0 chunks do not divide"):
        equivariance(z1, z2, chunks=0)
    with pytest.raises(ValueError, match="hold one image each"):
        equivariance(z1, z2, chunks=12)
